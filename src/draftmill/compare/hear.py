"""Both engines asked the same things: prompts answered, each other's answers scored, and A once more for its noise."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, TypeVar

from draftmill.compare.effects import Answer, Heard
from draftmill.engines.check import check_reply
from draftmill.engines.protocol import Engine, Request, Scored
from draftmill.errors import CapacityFault, ReplyFault, TransportFault
from draftmill.recipe import Sampling
from draftmill.records import Tool

T = TypeVar("T")

TOP = 20  # of the likeliest ids that are asked for: all that vLLM tells unless it is launched otherwise
AT_ONCE = 16  # requests at a server that does not say how many it takes
_TRIES = 5
_PAUSE = 1.0  # seconds before the second try; twice as long before each further one

Opened = Callable[[], AbstractAsyncContextManager[Engine]]
Tell = Callable[[str, int, int], None]  # hears of the phase, what is done of it, and of how much


class Question(NamedTuple):
    """One prompt of a comparison: its id, its token ids, and the tools that it shows."""

    id: str
    ids: list[int]
    tools: list[Tool] | None = None


class Plan(NamedTuple):
    """What both engines are asked. ``sampling`` is that of the sampled answers; greedy ones have temperature 0."""

    questions: list[Question]
    limit: int
    stop_ids: tuple[int, ...]
    vocab_size: int
    sampling: Sampling = Sampling()
    seed: int = 0
    top: int = TOP


async def hear(a: Opened, b: Opened, plan: Plan, tell: Tell) -> Heard:
    """Ask both. Each is opened, asked and closed in turn, A twice, so that both need not stand at the same time.

    Raises an EngineError for an engine that does not answer.
    """
    async with a() as engine:
        first = _Session(engine, plan, tell, "A")
        of_a, greedy_a = await first.answer(plan.sampling), await first.answer(_GREEDY)
        a_of_a = await first.score(of_a)
    async with b() as engine:
        second = _Session(engine, plan, tell, "B")
        of_b, greedy_b = await second.answer(plan.sampling), await second.answer(_GREEDY)
        b_of_b, b_of_a = await second.score(of_b), await second.score(of_a)
    async with a() as engine:
        again = _Session(engine, plan, tell, "A again")
        a_of_b = await again.score(of_b)
        again.otherwise()
        return Heard(
            a=of_a,
            b=of_b,
            greedy_a=greedy_a,
            greedy_b=greedy_b,
            greedy_again=await again.answer(_GREEDY),
            a_of_a=a_of_a,
            b_of_a=b_of_a,
            a_of_b=a_of_b,
            b_of_b=b_of_b,
            again_of_a=await again.score(of_a),
            again_of_b=await again.score(of_b),
        )


_GREEDY = Sampling(temperature=0.0)


class _Session:
    """One engine under questions, so many at once as it has slots."""

    def __init__(self, engine: Engine, plan: Plan, tell: Tell, name: str) -> None:
        self._engine = engine
        self._plan = plan
        self._tell = tell
        self._name = name
        self._at_once: int | None = None
        self._otherwise = False

    def otherwise(self) -> None:
        """From now on the last question comes first, and half as many at once: other batches, other rounding."""
        self._otherwise = True

    async def answer(self, sampling: Sampling) -> list[Answer]:
        plan = self._plan

        async def one(place: int) -> Answer:
            question = plan.questions[place]
            request = Request(
                question.ids,
                plan.limit,
                sampling,
                plan.stop_ids,
                tag=f"compare-{place}",
                seed=(plan.seed * 1_000_003 + place) % (1 << 31),
            )
            reply = await self._engine.generate(request)
            if reason := check_reply(request, reply, plan.vocab_size):
                raise ReplyFault(f"{self._engine.name}: {reason}", "`draftmill verify` and docs/engines.md say more")
            return Answer(list(reply.output_ids), reply.finish)

        return await self._all(f"{self._name}: {'greedy' if sampling == _GREEDY else 'sampled'} answers", one)

    async def score(self, answers: Sequence[Answer]) -> list[Scored]:
        async def one(place: int) -> Scored:
            asked = self._plan.questions[place].ids
            return await self._engine.score([*asked, *answers[place].ids], len(asked), self._plan.top)

        return await self._all(f"{self._name}: scores", one)

    async def _all(self, phase: str, one: Callable[[int], Awaitable[T]]) -> list[T]:
        if self._at_once is None:
            self._at_once = (await self._engine.identify()).slots or AT_ONCE
        gate = asyncio.Semaphore(max(1, self._at_once // 2) if self._otherwise else self._at_once)
        places = range(len(self._plan.questions))
        done = 0

        async def turn(place: int) -> T:
            nonlocal done
            async with gate:
                found = await _patiently(lambda: one(place))
            done += 1
            self._tell(phase, done, len(places))
            return found

        order = list(reversed(places) if self._otherwise else places)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {place: group.create_task(turn(place)) for place in order}
        except BaseExceptionGroup as faults:
            raise faults.exceptions[0] from None
        return [tasks[place].result() for place in places]


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Again where the server is full or was away for a moment."""
    for attempt in range(_TRIES - 1):
        try:
            return await ask()
        except (CapacityFault, TransportFault):
            await asyncio.sleep(_PAUSE * 2**attempt)
    return await ask()
