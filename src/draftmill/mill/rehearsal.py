"""A run in virtual time: the very loop of a real run on simulated servers, days in seconds.

Everything is the run's own: prompts, journal and standing on disk (never synced: a rehearsal needs no durability), the
checks of every reply, the faults. Only the servers and the clock are simulated.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from draftmill.engines.simulated import Counters, Host, SimulatedEngine, Trouble
from draftmill.ids import encode
from draftmill.journal.files import Files, SystemFiles
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.writer import Appender
from draftmill.ledger.standing import Standing, Tally, load_standing
from draftmill.mill import clock, virtual
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.mill.scene import Scene
from draftmill.mill.seat import Seat
from draftmill.mill.stream import Stream
from draftmill.recipe import Dataset, EngineSpec, Sampling
from draftmill.records import Completion

_STOP_IDS = (2,)
_WRITTEN_AT_ONCE = 1 << 20


class Moment(msgspec.Struct, frozen=True):
    """All servers together at one second of the rehearsal. ``generated`` counts from the start."""

    time: float
    running: int
    queued: int
    kv_used: int
    generated: int


class Report(msgspec.Struct, frozen=True):
    """What came of a rehearsal. ``ending`` is None where it was killed.

    ``seconds`` are virtual, ``cpu`` is what the process spent. ``finished`` says when a dataset's last answer stood in
    its journal. ``counters`` are the servers', since their last start.
    """

    ending: Ending | None
    seconds: float
    cpu: float
    timeline: list[Moment]
    finished: dict[str, float]
    tallies: dict[str, Tally]
    surplus: dict[str, int]
    counters: list[Counters]
    told: list[tuple[float, str, str, str]]

    @property
    def generated(self) -> int:
        """Tokens that the servers generated, those that nobody got included."""
        return sum(c.generated for c in self.counters)

    @property
    def recomputed(self) -> float:
        """Tokens that were computed again after a retraction, as a share of those generated."""
        return sum(c.recomputed for c in self.counters) / max(1, self.generated)

    @property
    def rate(self) -> float:
        """Generated tokens a second over the whole."""
        return self.generated / self.seconds if self.seconds else 0.0


class Stage(msgspec.Struct):
    """What stands on the stage while the loop runs, for whoever interferes. ``kill`` ends it as a kill does."""

    loop: Loop
    hosts: list[Host]
    kill: Callable[[], object]


def rehearse(
    scene: Scene,
    *,
    folder: Path | None = None,
    one_by_one: bool = False,
    limits: Limits | None = None,
    troubles: Sequence[tuple[float, Trouble]] = (),
    kill_at: float | None = None,
    during: Callable[[Stage], Awaitable[None]] | None = None,
    every: float = 60.0,
    salt: int | None = None,
    files: Files | None = None,
    began: float = 0.0,
) -> Report:
    """Play a scene to its end.

    A ``folder`` is made, or continued where a rehearsal of the same scene stands in it; without one the files are gone
    afterwards. ``one_by_one`` lets each dataset end before the next begins, which ``order: one-by-one`` does not.
    ``kill_at`` ends it at that second with everything in flight lost, as a kill does. ``during`` runs beside the
    (first) loop. ``troubles`` strike the first server. ``every`` is the timeline's step in seconds. Where every
    request draws anew (``Draw.ALWAYS``), ``salt`` makes one start differ from another; by default it is the number of
    answers in the folder. ``files`` is the disk under journals and errors; one that never syncs unless given.
    ``began`` is the time in the folder's files at which it begins, for a rehearsal that goes on behind another.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as temporary:
        play = _Play(scene, folder or Path(temporary), files or _Unsynced())
        return play.run(one_by_one, limits or Limits(), troubles, kill_at, during, every, salt, began)


class _Unsynced(SystemFiles):
    """Files that leave syncing to the system."""

    def fsync(self, fd: int) -> None:
        pass

    def fsync_folder(self, folder: Path) -> None:
        pass


class _TimedStream(Stream):
    """Remembers when its last answer stood in its journal."""

    last = 0.0

    def answered(self, completion: Completion) -> None:
        super().answered(completion)
        self.last = clock.now()


class _Play:
    def __init__(self, scene: Scene, path: Path, files: Files) -> None:
        self._scene = scene
        self._path = path
        self._files = files
        self._finished = {d.name: 0.0 for d in scene.datasets}
        self._kill: Callable[[], object] = lambda: None
        self._told: list[tuple[float, str, str, str]] = []
        self._timeline: list[Moment] = []
        self._hosts: list[Host] = []
        for index, dataset in enumerate(scene.datasets):
            if not self._folder(dataset.name).prompts.exists():
                self._write_prompts(index)

    def run(
        self,
        one_by_one: bool,
        limits: Limits,
        troubles: Sequence[tuple[float, Trouble]],
        kill_at: float | None,
        during: Callable[[Stage], Awaitable[None]] | None,
        every: float,
        salt: int | None,
        began_at: float,
    ) -> Report:
        began = time.process_time()
        if salt is None:
            salt = sum(self._standing(d.name, None).tally().counting for d in self._scene.datasets)

        async def body() -> Ending | None:
            self._hosts = [
                Host(spec, self._scene.answers(salt * len(self._scene.servers) + i), troubles if i == 0 else ())
                for i, spec in enumerate(self._scene.servers)
            ]
            watch = asyncio.create_task(self._watch(every))
            play = asyncio.create_task(self._play(one_by_one, limits, during))
            self._kill = play.cancel
            timer = asyncio.get_running_loop().call_later(kill_at, play.cancel) if kill_at is not None else None
            try:
                return await play
            except asyncio.CancelledError:
                return None
            finally:
                if timer:
                    timer.cancel()
                watch.cancel()
                self._note_moment()
                for host in self._hosts:
                    host.close()

        ran = virtual.run(body(), began_at)
        standings = {d.name: self._standing(d.name, d.budget) for d in self._scene.datasets}
        return Report(
            ending=ran.result,
            seconds=ran.seconds,
            cpu=time.process_time() - began,
            timeline=self._timeline,
            finished=self._finished,
            tallies={name: standing.tally() for name, standing in standings.items()},
            surplus={n: sum(s.tokens(p) for p in range(s.cut(), s.positions)) for n, s in standings.items()},
            counters=[host.server.counters for host in self._hosts],
            told=self._told,
        )

    async def _play(
        self, one_by_one: bool, limits: Limits, during: Callable[[Stage], Awaitable[None]] | None
    ) -> Ending:
        scene = self._scene
        names = [d.name for d in scene.datasets]
        seats = [await self._seat(i, host) for i, host in enumerate(self._hosts)]
        load_log = Appender(self._path / "load.jsonl", _Unsynced())
        ending = Ending.DONE
        try:
            for group in [[name] for name in names] if one_by_one else [names]:
                streams = [self._stream(name) for name in group]
                loop = Loop(
                    [*streams],
                    seats,
                    scene.lanes,
                    stop_ids=_STOP_IDS,
                    vocab_size=scene.vocab_size,
                    limits=limits,
                    tell=self._tell,
                    load_log=load_log,
                    start="rehearsal",
                    order=scene.order,
                )
                beside = asyncio.ensure_future(during(Stage(loop, self._hosts, self._kill))) if during else None
                during = None
                try:
                    ending = await loop.run()
                finally:
                    if beside:
                        beside.cancel()
                    for stream in streams:
                        self._finished[stream.name] = stream.last
                        stream.close()
                if ending is not Ending.DONE:
                    break
        finally:
            for seat in seats:
                await seat.close()
            load_log.close()
        return ending

    async def _seat(self, number: int, host: Host) -> Seat:
        engine = SimulatedEngine(host, f"simulated-{number}")
        spec = EngineSpec.model_validate({"url": "http://simulated", "concurrency": self._scene.concurrency})
        return Seat(engine, spec, await engine.identify(), self._tell)

    def _stream(self, name: str) -> _TimedStream:
        dataset = next(d for d in self._scene.datasets if d.name == name)
        return _TimedStream(
            Dataset(name=name, source="rehearsal", lane=dataset.lane, budget=dataset.budget),
            self._folder(name),
            self._standing(name, dataset.budget),
            sampling=Sampling(),
            limit=self._scene.lanes[dataset.lane].max_new_tokens,
            files=self._files,
        )

    async def _watch(self, every: float) -> None:
        while True:
            self._note_moment()
            await asyncio.sleep(every)

    def _note_moment(self) -> None:
        loads = [host.server.load(host.now()) for host in self._hosts]
        self._timeline.append(
            Moment(
                time=clock.now(),
                running=sum(load.running for load in loads),
                queued=sum(load.queued for load in loads),
                kv_used=sum(load.kv_used or 0 for load in loads),
                generated=sum(host.server.counted(host.now()).generated for host in self._hosts),
            )
        )

    def _tell(self, kind: str, subject: str, message: str) -> None:
        self._told.append((clock.now(), kind, subject, message))

    def _folder(self, name: str) -> DatasetFolder:
        return DatasetFolder(self._path / name)

    def _standing(self, name: str, budget: int | None) -> Standing:
        return load_standing(self._folder(name), budget=budget)

    def _write_prompts(self, index: int) -> None:
        folder = self._folder(self._scene.datasets[index].name)
        folder.path.mkdir(parents=True, exist_ok=True)
        with folder.prompts.open("wb", buffering=_WRITTEN_AT_ONCE) as file:
            for prompt in self._scene.prompts(index):
                file.write(encode(prompt) + b"\n")
