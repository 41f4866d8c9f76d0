"""An engine in this process whose distribution is known: logits that follow from the last ids, moved as a test says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import numpy as np

from draftmill.compare.hear import Plan, Question
from draftmill.engines.protocol import Engine, Identity, Load, OnIds, Reply, Request, Scored
from draftmill.errors import EngineError
from draftmill.records import Finish

VOCABULARY, STOP = 60, 2


class ToyEngine:
    """``moved`` are the deviations of its logits from those of the plain one, ``noise`` what is drawn anew for every
    call. ``faults`` are raised first, one a call."""

    def __init__(self, moved: float = 0.0, noise: float = 0.0, slots: int | None = 4) -> None:
        self.name = "toy"
        self.moved, self.noise, self.slots = moved, noise, slots
        self.faults: list[EngineError] = []
        self.asked: list[tuple[int, ...]] = []
        self.running = self.most_running = self.opened = 0
        self._calls = 0

    def logprobs(self, context: list[int]) -> np.ndarray:
        key = [1, *context[-3:]]
        logits = np.random.default_rng(key).normal(0, 2, VOCABULARY)
        logits += self.moved * np.random.default_rng([2, *key]).normal(0, 1, VOCABULARY)
        if self.noise:
            logits += self.noise * np.random.default_rng([3, self._calls, *key]).normal(0, 1, VOCABULARY)
        return logits - np.log(np.exp(logits).sum())

    async def identify(self) -> Identity:
        return Identity("toy", self.name, vocab_size=VOCABULARY, context=512, slots=self.slots)

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        await self._call(tuple(request.prompt_ids))
        rng, ids = np.random.default_rng(request.seed), list(request.prompt_ids)
        out: list[int] = []
        while len(out) < request.limit and (not out or out[-1] != STOP):
            said = self.logprobs([*ids, *out])
            greedy = request.sampling.temperature == 0
            out.append(int(said.argmax() if greedy else rng.choice(VOCABULARY, p=np.exp(said))))
        finish = Finish.STOP if out[-1] == STOP else Finish.LENGTH
        return Reply(out, len(ids), len(out), finish)

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        await self._call(tuple(ids[:start]))
        said = [self.logprobs(ids[:at]) for at in range(start, len(ids))]
        values = [float(each[id]) for each, id in zip(said, ids[start:], strict=True)]
        likeliest = [{int(i): float(each[i]) for i in np.argsort(-each, kind="stable")[:top]} for each in said]
        return Scored(values, likeliest if top else None)

    async def _call(self, prompt: tuple[int, ...]) -> None:
        self._calls += 1
        self.asked.append(prompt)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if self.faults:
            raise self.faults.pop(0)

    async def abort(self, tag: str) -> bool:
        return False

    async def load(self) -> Load:
        return Load(0, 0)

    async def tokenize(self, text: str) -> list[int] | None:
        return None

    async def own_stops(self, candidates: list[int]) -> list[int]:
        return []

    async def close(self) -> None:
        pass


def opened(engine: ToyEngine) -> Callable[[], AbstractAsyncContextManager[Engine]]:
    @asynccontextmanager
    async def open() -> AsyncIterator[Engine]:
        engine.opened += 1
        yield engine

    return open


def plan(prompts: int = 24, limit: int = 24, top: int = 20) -> Plan:
    questions = [Question(str(n), [10 + n, 11, 12 + n % 5]) for n in range(prompts)]
    return Plan(questions, limit, (STOP,), VOCABULARY, top=top)
