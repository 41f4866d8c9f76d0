"""Rounds of chaos in virtual time: the real loop on simulated servers, over a disk that dies with it."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import msgspec

from draftmill.engines.simulated import Draw, Lengths, ServerSpec, Speed, Trouble, storm
from draftmill.errors import StorageError
from draftmill.ids import encode
from draftmill.journal import index as indices
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.reader import Entry, UnknownLine
from draftmill.ledger import standing
from draftmill.ledger.order import conversation_id
from draftmill.ledger.rows import refresh_rows
from draftmill.ledger.standing import load_standing
from draftmill.mill.loop import Ending, Limits
from draftmill.mill.rehearsal import Report, Stage, rehearse
from draftmill.mill.scene import Scene, SceneDataset
from draftmill.recipe import Lane
from draftmill.records import Prompt
from tests.journal.power import PoweredDisk
from tests.mill.chaos.check import Asked, Found, drawn_again, incomplete, look, promise_broken, tally_differs
from tests.mill.chaos.draws import Draws
from tests.mill.chaos.outcome import Outcome

_FIRST_ID, _VOCABULARY = 100, 1000  # of the first dataset's prompts, as in a scene
_CONTEXT = 1200
_POISON = 900  # prompt tokens of one prefill pass that kill a server
_STORM = 60.0  # seconds of a start in which troubles strike

KINDS = ("mixed", "drawn anew", "guilty prompts", "changed on the way")


@dataclass
class Start:
    """One start: what strikes the servers, when and how it ends, and how it is run."""

    storms: list[list[tuple[float, Trouble]]] = field(default_factory=list)
    ending: str = "calm"
    at: float = 0.0
    again: float = 0.0  # seconds until a second interrupt; 0: none
    operation: int = 0  # of the disk, in whose middle it dies
    disk_bytes: int = 0
    truncates: bool = True
    checkpoint: float | None = 1.0
    stall: float = 300.0


def play(kind: str, seed: str, path: Path) -> Outcome:
    """One round, whose whole course follows from its seed. In some, journals of any size are read by their index."""
    draw = random.Random(seed)
    worth = draw.choice([1, 4000, indices.WORTH])

    def indexed(journal: Path, index: Path, _worth: int, vocab_size: int) -> Iterator[Entry | UnknownLine]:
        return indices.entries(journal, index, worth, vocab_size)

    with patch.object(standing, "entries", indexed):
        return Round(kind, draw, path).play()


class Round:
    def __init__(self, kind: str, draw: random.Random, path: Path) -> None:
        self.draw = draw
        self.kind = kind
        self.path = path
        self.disk = PoweredDisk(draw)
        self.outcome = Outcome(kind)
        self.scene = self._scene()
        self.asked = [self._asked(index) for index in range(len(self.scene.datasets))]
        self.found: list[Found] = [look(asked) for asked in self.asked]
        self.draws = Draws()
        self.stage: Stage | None = None
        self.told: list[int] = []

    def play(self) -> Outcome:
        for _ in range(self.draw.randint(2, 6)):
            self._change()
            self._start(self._stormy())
        for _ in range(2):
            report = self._start(Start())
            if report is not None and report.ending is Ending.DONE:
                break
        else:
            self.outcome.violations.append(f"a calm start did not end: {report and (report.ending, report.told[-3:])}")
        for asked, found in zip(self.asked, self.found, strict=True):
            self.outcome.note(asked.folder.name, incomplete(asked, found))
            self.outcome.figures += found.marks
        self.outcome.figures += self.draws.figures(self.found)
        self.outcome.struck += self.disk.struck
        return self.outcome

    # what is asked

    def _scene(self) -> Scene:
        draw, guilty = self.draw, self.kind == "guilty prompts"
        long = not guilty and draw.random() < 0.7
        datasets = tuple(
            SceneDataset(
                f"d{index}",
                draw.randint(6, 30),
                0,
                Lengths(draw.uniform(30, 160), draw.choice([0.3, 0.9])),
                lane="long" if long and index else "short",
                budget=draw.randint(300, 2500) if draw.random() < 0.5 else None,
            )
            for index in range(draw.randint(2, 3))
        )
        spec = ServerSpec(
            kv_tokens=draw.choice([3000, 8000, 50_000]),
            speed=Speed(draw.uniform(0.02, 0.08), 0.0005),
            context=_CONTEXT,
            max_queued=draw.choice([None, 2]),
            most_prefill_tokens=_POISON if guilty else None,
            restart=draw.uniform(1, 8),
        )
        lanes = {
            "short": Lane(max_new_tokens=80 if guilty else draw.randint(60, 400)),
            "long": Lane(max_new_tokens=draw.randint(200, 600), concurrency=draw.choice(["auto", 3])),
        }
        return Scene(
            datasets,
            lanes,
            servers=(spec,) * draw.randint(1, 2),
            concurrency=6 if guilty else draw.choice(["auto", 4, 16]),
            order=draw.choice(["together", "one-by-one"]),
            draw=draw.choice([Draw.ALWAYS, Draw.SEED]) if self.kind == "drawn anew" else Draw.NEVER,
        )

    def _asked(self, index: int) -> Asked:
        """Write a dataset's prompts, of every length, and some that deserve an error where this is the round for it."""
        dataset, draw = self.scene.datasets[index], self.draw
        folder = DatasetFolder(self.path / dataset.name)
        folder.path.mkdir(parents=True)
        asked = Asked(
            folder.path,
            self.scene.answers(),
            {self.scene.lanes[dataset.lane].max_new_tokens},
            dataset.budget,
            longest=min(s.max_prompt + 4 for s in self.scene.servers),
        )
        with folder.prompts.open("wb") as file:
            for position in range(dataset.prompts):
                length, fault = draw.randint(13, 60 if dataset.lane == "short" else 500), ""
                if self.kind == "guilty prompts" and draw.random() < 0.08:
                    blame = draw.choice(["render", "too_long", "engine_death"])
                    length = {"render": 0, "too_long": _CONTEXT + 20, "engine_death": _POISON + 50}[blame]
                    fault = "the chat template refuses it" if blame == "render" else ""
                    asked.guilty[position] = {blame}
                ids = [_FIRST_ID + index, *(draw.randrange(16, _VOCABULARY) for _ in range(length - 1))]
                name = conversation_id(dataset.name, b"%d" % position, 0)
                line = Prompt(name, position, dataset.lane, [], [] if fault else ids, where="x:1", fault=fault)
                file.write(encode(line) + b"\n")
        return asked

    def _change(self) -> None:
        """What may change between two starts."""
        if self.kind != "changed on the way":
            return
        draw, scene = self.draw, self.scene
        datasets = list(scene.datasets)
        for index, dataset in enumerate(datasets):
            if dataset.budget and draw.random() < 0.3:
                self.asked[index].budget = budget = max(100, dataset.budget + draw.randint(-300, 800))
                datasets[index] = msgspec.structs.replace(dataset, budget=budget)
        lanes = dict(scene.lanes)
        if draw.random() < 0.4:
            name = draw.choice(["short", "long"])
            lanes[name] = Lane(max_new_tokens=draw.randint(20, 600))
            for asked, dataset in zip(self.asked, datasets, strict=True):
                if dataset.lane == name:
                    asked.limits.add(lanes[name].max_new_tokens)
        order = draw.choice(["together", "one-by-one"])
        self.scene = msgspec.structs.replace(scene, datasets=tuple(datasets), lanes=lanes, order=order)

    # starts

    def _stormy(self) -> Start:
        draw = self.draw
        endings = ("kill", "power cut", "dies writing", "stop", "disk full", "failed sync", "through")
        ending = draw.choices(endings, weights=(2, 2, 4, 2, 1, 1, 1))[0]
        return Start(
            storms=[
                storm(draw.randrange(1 << 30), until=_STORM, every=draw.uniform(2, 8), longest=draw.uniform(1, 8))
                for _ in self.scene.servers
            ],
            ending=ending,
            at=draw.uniform(0.1, 20),
            again=draw.choice([0.0, draw.uniform(0.01, 3)]),
            operation=draw.choice([draw.randint(1, 12), draw.randint(1, 200)]),
            disk_bytes=draw.randint(0, 20_000),
            truncates=draw.random() < 0.7,
            checkpoint=draw.choice([None, 1.0, 1.0, 4.0]),
            stall=draw.choice([3.0, 300.0]),
        )

    def _start(self, start: Start) -> Report | None:
        self.outcome.starts[start.ending] += 1
        disk, self.stage, self.told = self.disk, None, []
        disk.on_death = self._die
        if start.ending == "dies writing":
            disk.die_at, disk.cuts_power = disk.operations + start.operation, self.draw.random() < 0.6
        if start.ending == "disk full":
            disk.full_after, disk.fail_truncate = start.disk_bytes, not start.truncates
        if start.ending == "failed sync":
            disk.fail_sync, disk.fail_truncate = start.operation, not start.truncates
        report = None
        try:
            report = rehearse(
                self.scene,
                folder=self.path,
                limits=Limits(drain=5.0, checkpoint=start.checkpoint, stall=start.stall),
                during=lambda stage: self._interfere(stage, start),
                salt=self.outcome.starts.total(),
                files=disk,
            )
        except StorageError:  # the disk failed when the files were opened: told without a traceback
            self.outcome.starts["refused by the disk"] += 1
        if not disk.dead:
            self._note_told()
        if disk.dead or self.draw.random() < 0.3:  # or the power goes when nobody runs
            disk.die(True)
            disk.restore()
        disk.calm()
        self._look(report)
        return report

    async def _interfere(self, stage: Stage, start: Start) -> None:
        self.stage = stage
        if self.disk.dead:
            stage.kill()
            return
        loop = asyncio.get_running_loop()
        for host in stage.hosts:
            self.draws.watch(host)
        for host, troubles in zip(stage.hosts, start.storms, strict=False):
            for at, trouble in troubles:
                loop.call_later(at, host.strike, trouble)
        actions: dict[str, Callable[[], object]] = {
            "kill": lambda: self.disk.die(False),
            "power cut": lambda: self.disk.die(True),
            "stop": lambda: self._interrupt(stage),
        }
        if action := actions.get(start.ending):
            loop.call_later(start.at, action)
            if start.ending == "stop" and start.again:
                loop.call_later(start.at + start.again, action)

    def _interrupt(self, stage: Stage) -> None:
        self.outcome.struck["interrupt"] += 1
        stage.loop.stop(Ending.INTERRUPTED)

    def _die(self) -> None:
        self._note_told()
        if self.stage:
            self.stage.kill()

    def _note_told(self) -> None:
        """What the mill calls done, and what has struck."""
        if self.stage:
            self.told = [stream.completed for stream in self.stage.loop.streams]
            for host in self.stage.hosts:
                self.outcome.struck += Counter({kind.name.lower(): n for kind, n in host.struck.items()})

    def _look(self, report: Report | None) -> None:
        """Hold what stands there now against what must hold."""
        note = self.outcome.note
        note("", promise_broken(self.disk.promised()))
        for index, (asked, dataset) in enumerate(zip(self.asked, self.scene.datasets, strict=True)):
            found, before = look(asked), self.found[index]
            self.found[index] = found
            note(dataset.name, found.violations + drawn_again(before, found))
            if self.told and len(found.whole) < len(before.whole) + self.told[index]:
                note(dataset.name, [f"{self.told[index]} answers were called done, {len(found.whole)} stand there"])
            folder = DatasetFolder(asked.folder)
            stands = load_standing(folder, budget=dataset.budget)
            note(dataset.name, tally_differs(found, msgspec.to_builtins(stands.tally())))
            if stands.unknown_lines or stands.strays or stands.orphans:
                note(dataset.name, [f"{len(stands.unknown_lines)} unknown lines, {stands.strays} strays"])
            if report is not None and report.ending is not None:
                refresh_rows(folder, stands)
