"""An engine asked about rows: their ids scored, and greedy answers generated again."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from draftmill.engines.protocol import Engine, Identity, Request, Scored
from draftmill.engines.voice import Passage, Voice, hear
from draftmill.errors import EngineError, PromptFault
from draftmill.recipe import Sampling
from draftmill.verify.draws import Draws, draws

TOP = 20  # likeliest ids of a position: vLLM tells no more
_STEPPED = 256  # ids of an answer that llama.cpp is asked about, one call each
_AT_ONCE = 4
_TAG = "replay"

Tell = Callable[[int, int], None]  # hears of rows that are done, and of all


def quiet(done: int, of: int) -> None:
    pass


@dataclass(frozen=True)
class Asked:
    """A row to be replayed: its number in its file, the ids before the answer, the answer's, how it was sampled."""

    dataset: str
    row: int
    prompt: list[int]
    answer: list[int]
    sampling: Sampling


class Parting(msgspec.Struct, frozen=True):
    """Where a greedy answer and the same one generated again part: the ids there, and by how many nats the engine finds
    its own likelier."""

    at: int
    said: int
    again: int
    gap: float


@dataclass(frozen=True)
class Heard:
    """What an engine says to a row; ``parting`` is of a greedy one that comes out otherwise."""

    asked: Asked
    scored: Scored
    drawn: Draws
    parting: Parting | None = None


@dataclass
class Replay:
    """All rows that were asked about. ``silent`` says of which nothing is known, and why. ``voice`` is what the engine
    says to the passages that the engines of the run were asked, where they were."""

    engine: Identity
    heard: list[Heard] = field(default_factory=list)
    silent: list[tuple[str, str]] = field(default_factory=list)
    voice: Voice | None = None


async def replay(
    engine: Engine,
    asked: Sequence[Asked],
    stop_ids: tuple[int, ...],
    vocab_size: int,
    tell: Tell = quiet,
    passages: Sequence[Passage] = (),
) -> Replay:
    """Ask an engine about rows, a few at once. Raises an EngineError where it cannot score at all."""
    identity = await engine.identify()
    stepped = identity.kind == "llamacpp"
    most = _STEPPED if stepped else None
    at_once = min(_AT_ONCE, identity.slots or 1) if stepped else _AT_ONCE  # more would take each other's prompt cache
    found, gate = Replay(identity), asyncio.Semaphore(at_once)

    async def one(number: int, row: Asked) -> Heard | tuple[str, str]:
        async with gate:
            answer = row.answer[:most]
            try:
                scored = await engine.score(row.prompt + answer, len(row.prompt), TOP)
            except PromptFault as fault:
                return f"{row.dataset}, row {row.row + 1}", fault.message
            if scored.top is None:
                raise EngineError(f"{engine.name}: tells no likeliest ids, so nothing can be judged by it")
            parting = None
            if row.sampling.temperature == 0:
                request = Request(row.prompt, len(answer), row.sampling, stop_ids, f"{_TAG}-{number}", seed=0)
                again = list((await engine.generate(request)).output_ids)
                parting = _parting(answer, again, scored)
            return Heard(row, scored, draws(answer, scored, row.sampling, vocab_size), parting)

    if passages:
        try:
            found.voice = await hear(engine, passages)
        except PromptFault as fault:
            found.silent.append(("what the run's engines were asked at its start", fault.message))
    tasks = [asyncio.ensure_future(one(n, row)) for n, row in enumerate(asked)]
    try:
        for done, future in enumerate(asyncio.as_completed(tasks), 1):
            match await future:
                case Heard() as heard:
                    found.heard.append(heard)
                case silent:
                    found.silent.append(silent)
            tell(done, len(asked))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    found.heard.sort(key=lambda heard: asked.index(heard.asked))
    return found


def _parting(answer: list[int], again: list[int], scored: Scored) -> Parting | None:
    at = next((n for n, (a, b) in enumerate(zip(answer, again, strict=False)) if a != b), None)
    if at is None or scored.top is None:
        return None
    other = scored.top[at].get(again[at], float("-inf"))
    return Parting(at, answer[at], again[at], round(other - scored.logprobs[at], 4))
