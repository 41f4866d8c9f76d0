"""An engine in this process that does what a test says: for faults and timing, never for proving a protocol."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from draftmill.engines.protocol import Identity, Load, OnIds, Reply, Request, Scored
from draftmill.errors import EngineError
from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.writer import Appender
from draftmill.ledger.order import conversation_id
from draftmill.ledger.standing import load_standing
from draftmill.mill.dialogue import Dialogue
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.mill.seat import Seat
from draftmill.mill.stream import Stream
from draftmill.recipe import Dataset, EngineSpec, Lane, Sampling
from draftmill.records import Finish, Prompt

VOCABULARY = 1000
STOP = 2


def answer(request: Request, length: int = 3) -> Reply:
    """A good reply derived from the prompt: ``length`` ids, the last one the stop id, cut at the limit."""
    ids = [10 + (request.prompt_ids[0] + i) % 900 for i in range(length - 1)] + [STOP]
    if length > request.limit:
        ids = ids[: request.limit]
        ids[-1] = 7
    finish = Finish.STOP if ids[-1] == STOP else Finish.LENGTH
    return Reply(ids, len(request.prompt_ids), len(ids), finish, STOP if finish is Finish.STOP else None, 0)


Behaviour = Callable[[Request], Reply | EngineError | Awaitable[Reply]]


class ScriptedEngine:
    """``behaviour(request)`` gives a reply, an error to raise, or something to await. ``alive`` decides identify."""

    def __init__(self, behaviour: Behaviour = answer, name: str = "scripted", **identity: Any) -> None:
        self.name = name
        self.alive: EngineError | None = None
        self.behaviour = behaviour
        self.requests: list[Request] = []
        self.listeners: dict[str, OnIds | None] = {}
        self.aborted: list[str] = []
        self.gives_beginnings = False
        self.closed = False
        self.running = 0
        self.most_running = 0
        self._identity = Identity("scripted", name, **identity)

    async def identify(self) -> Identity:
        await asyncio.sleep(0)
        if self.alive:
            raise self.alive
        return self._identity

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        self.requests.append(request)
        self.listeners[request.tag] = on_ids
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0)
            result = self.behaviour(request)
            if isinstance(result, EngineError):
                raise result
            return result if isinstance(result, Reply) else await result
        finally:
            self.running -= 1

    async def abort(self, tag: str) -> bool:
        self.aborted.append(tag)
        return self.gives_beginnings

    async def load(self) -> Load:
        return Load(self.running, 0)

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        return Scored([0.0] * (len(ids) - start))

    async def tokenize(self, text: str) -> list[int] | None:
        return None

    async def own_stops(self, candidates: list[int]) -> list[int]:
        return []

    async def close(self) -> None:
        self.closed = True


class Milled:
    """One dataset (or several) in a folder, run through the loop as often as a test wants."""

    def __init__(self, path: Path, prompts: dict[str, list[list[int]]], lane: str = "short") -> None:
        self.path = path
        self.told: list[tuple[str, str, str]] = []
        self.loop: Loop | None = None
        self.sampling = Sampling()
        self.lanes = {lane: Lane(max_new_tokens=64)}
        self.long_limit: int | None = None
        self.dialogue: Dialogue | None = None
        self.vocab_size, self.stop_ids = VOCABULARY, (STOP,)
        self.datasets = {name: Dataset(name=name, source="x", lane=lane) for name in prompts}
        for name, many in prompts.items():
            folder = self.folder(name)
            folder.path.mkdir(parents=True)
            lines = [
                Prompt(conversation_id(name, b"%d" % n, 0), n, lane, [], ids, where=f"{name}.jsonl:{n + 1}")
                for n, ids in enumerate(many)
            ]
            folder.prompts.write_bytes(b"".join(encode(line) + b"\n" for line in lines))

    def folder(self, name: str) -> DatasetFolder:
        return DatasetFolder(self.path / name)

    def standing(self, name: str = "a", **options: Any) -> Any:
        dataset = self.datasets[name]
        return load_standing(
            self.folder(name),
            samples=dataset.samples,
            budget=dataset.budget,
            counts=dataset.budget_counts,
            **options,
        )

    def run(
        self,
        *engines: ScriptedEngine,
        limits: Limits | None = None,
        concurrency: int = 4,
        during: Callable[[Loop], Awaitable[None]] | None = None,
        prepare: Callable[[Loop], None] | None = None,
    ) -> Ending:
        async def body() -> Ending:
            def tell(kind: str, subject: str, message: str) -> None:
                self.told.append((kind, subject, message))

            spec = EngineSpec(url="http://127.0.0.1:1", concurrency=concurrency)
            seats = [Seat(engine, spec, engine._identity, tell) for engine in engines]
            streams = [
                Stream(
                    d,
                    self.folder(name),
                    self.standing(name),
                    sampling=self.sampling,
                    limit=self.limit(d),
                    long_limit=self.long_limit,
                    dialogue=self.dialogue,
                    most_turns=8 if self.dialogue else 1,
                )
                for name, d in self.datasets.items()
            ]
            load_log = Appender(self.path / "load.jsonl")
            self.loop = Loop(
                streams,
                seats,
                self.lanes,
                stop_ids=self.stop_ids,
                vocab_size=self.vocab_size,
                limits=limits or Limits(patience=0.5, drain=0.2),
                tell=tell,
                load_log=load_log,
            )
            if prepare:
                prepare(self.loop)
            beside = asyncio.create_task(during(self.loop)) if during else None
            try:
                return await asyncio.wait_for(self.loop.run(), 30)
            finally:
                if beside:
                    await beside
                for seat in seats:
                    await seat.close()
                for stream in streams:
                    stream.close()
                load_log.close()

        return asyncio.run(body())

    def limit(self, dataset: Dataset) -> int:
        return self.lanes[dataset.lane].max_new_tokens

    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.told]


def prompts(count: int, start: int = 0) -> list[list[int]]:
    return [[n + 1, 5, 6] for n in range(start, start + count)]


def once(fault: EngineError, times: int = 1, when: Callable[[Request], bool] = lambda _: True):  # type: ignore[no-untyped-def]
    """A behaviour that fails the first ``times`` fitting requests and answers every other."""
    left = [times]

    def behave(request: Request) -> Reply | EngineError:
        if left[0] and when(request):
            left[0] -= 1
            return fault
        return answer(request)

    return behave


def is_prompt(number: int) -> Callable[[Request], bool]:
    return lambda request: request.prompt_ids[0] == number + 1


async def slowly(request: Request) -> Reply:
    await asyncio.sleep(0.05)
    return answer(request)


async def stop_after(loop: Loop, answers: int) -> None:
    while loop.streams[0].completed < answers:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    loop.stop(Ending.INTERRUPTED)


def wrong(request: Request) -> Reply:
    return msgspec.structs.replace(answer(request), prompt_tokens=99)


def lines(run: Milled) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in run.folder("a").journal.read_bytes().splitlines()]
