"""All figures of a run out of its files: read only, never locked, and each look reads only what came since the last.

``RunWatch`` works beside the run, after it, on a copy on another machine, and on folders of older versions.
"""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

import msgspec
from pydantic import ValidationError

from draftmill import examples
from draftmill import recipe as recipes
from draftmill.errors import RecipeError, StorageError, UsageFault
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.journal.lock import Holder, holder_lives, last_holder
from draftmill.journal.reader import LARGEST
from draftmill.ledger.control import ControlFile
from draftmill.ledger.settings import read_settings
from draftmill.recipe import Control, Recipe
from draftmill.watch import eta, servers, thinking
from draftmill.watch.dataset import DatasetWatch, Plan
from draftmill.watch.events import Events
from draftmill.watch.figures import (
    DatasetFigures,
    Disk,
    EngineFigures,
    LaneFigures,
    Phase,
    Recent,
    RunFigures,
    Unread,
)
from draftmill.watch.lengths import Histogram
from draftmill.watch.loads import Done, Loads
from draftmill.watch.rates import Marks, lately, over, rates
from draftmill.watch.serverlog import ServerLog
from draftmill.watch.totals import together

_SILENT = 60.0  # seconds without a sample or an event after which a run that did not end is taken for gone
_EVENTS = 50  # that figures hold
_ROW_SHARE = 1.3  # bytes of the training rows for each byte of the journal: prompts and masks stand there too


class RunWatch:
    """A run's folder under watch. ``refresh`` gives its figures as they are now; ``now`` is the clock.

    Raises UsageFault where the folder is not there. ``logs`` are the engines' own logs, for figures that the
    run does not have.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], float] = time.time,
        logs: Sequence[ServerLog] = (),
    ) -> None:
        if not path.is_dir():
            raise UsageFault(f"{path}: holds no run", "give the folder that `draftmill run` made")
        self.folder = _opened(path)
        self.events = Events(self.folder.events)
        self.loads = Loads(self.folder.load, self.events)
        self.datasets: dict[str, DatasetWatch] = {}
        self.recipe: Recipe | None = None
        self._now = now
        self._logs = logs
        self._marks: dict[str, Marks] = {}
        self._control = ControlFile(self.folder.control)
        self._settings_stamp: object = ()
        self._control_fault = ""
        self._quickstart = False
        self._left_out: set[str] = set()
        self._vocab_size = LARGEST
        self._settings_fault: list[Unread] = []
        self._slots: dict[str, int | None] = {}

    def refresh(self) -> RunFigures:
        """Read what came since the last look."""
        self.events.refresh()  # first: settings and samples are understood by them
        self._read_settings()
        self._find_datasets()
        self.loads.refresh()
        now = self._now()
        for name, dataset in self.datasets.items():
            dataset.refresh()
            done = Done(dataset.answers, dataset.failed, dataset.generated, dataset.growing)
            self._marks.setdefault(name, Marks()).add(now, done)
        return self._figures(now)

    def lengths(self, dataset: str) -> Histogram:
        """The lengths of a dataset's answers, for a chart."""
        return self.datasets[dataset].lengths()

    # settings

    def _read_settings(self) -> None:
        stamps = [self.folder.settings, self.folder.control, self.folder.engines]
        over = self.events.phase is Phase.ENDED
        stamp = over, [(s.st_mtime_ns, s.st_size, s.st_ino) if (s := _stat(path)) else None for path in stamps]
        if stamp == self._settings_stamp:
            return
        self._settings_stamp = stamp
        self._control_fault, self._settings_fault, control = "", [], Control()
        try:
            control = self._control.read()
        except RecipeError as error:
            self._control_fault = "; ".join([error.message, *error.faults])
        try:
            settings = read_settings(self.folder)
            self.recipe = Recipe.model_validate(settings.recipe) if settings else None
            self._vocab_size = settings.vocab_size if settings else LARGEST
            self._left_out = set(settings.left_out) if settings else set()
        except (StorageError, ValidationError) as error:
            self.recipe = None
            self._settings_fault = [Unread(self.folder.settings.name, 1, 1, str(error).splitlines()[0])]
        self._quickstart = self.recipe == recipes.load(examples.QUICKSTART / "recipe.yaml")
        if self.recipe:
            try:
                now = control.over(self.recipe)
                self.recipe = self.recipe if over else now  # one that is over followed what its settings say
            except RecipeError as error:
                self._control_fault = "; ".join([error.message, *error.faults])
        for name, dataset in self.datasets.items():
            dataset.replan(self._plan(name))
        self._slots = servers.slots(self.folder.engines)

    def _plan(self, name: str) -> Plan:
        dataset = next((d for d in self.recipe.datasets if d.name == name), None) if self.recipe else None
        if self.recipe is None or dataset is None:
            return Plan(vocab_size=self._vocab_size)
        limit = self.recipe.lanes[dataset.lane].max_new_tokens
        return Plan(dataset.lane, limit, dataset.samples, dataset.budget, dataset.budget_counts, self._vocab_size)

    def _find_datasets(self) -> None:
        """Those of the recipe first, in its order, then whatever else has prompts or a journal. A dataset that the
        recipe leaves out and that has no answers, as a start that is refused leaves behind, is none of the run's."""
        if isinstance(self.folder, _Alone):
            name = self.folder.path.resolve().name
            self.datasets = self.datasets or {name: DatasetWatch(self.folder.dataset(name), self._plan(name))}
            return
        wanted = [d.name for d in self.recipe.datasets] if self.recipe else []
        try:
            with os.scandir(self.folder.path) as entries:
                found = sorted(e.name for e in entries if e.name not in self.datasets and e.is_dir())
        except OSError:
            return
        there = [n for n in found if any(f.exists() for f in _files(self.folder.dataset(n)))]
        there = [n for n in there if n not in self._left_out or self.folder.dataset(n).answered()]
        if not there:
            return
        own = self.recipe.markers.thinking if self.recipe else None
        think = thinking.find(self.folder.tokenizer, own)
        for name in there:
            self.datasets[name] = DatasetWatch(self.folder.dataset(name), self._plan(name), think)
        order = [n for n in wanted if n in self.datasets] + [n for n in sorted(self.datasets) if n not in wanted]
        self.datasets = {name: self.datasets[name] for name in order}

    # figures

    def _figures(self, now: float) -> RunFigures:
        datasets = [self._dataset(name, now) for name in self.datasets]
        held = holder_lives(self.folder.lock)
        phase = self._phase(now, held, self._settled(datasets))
        kept = servers.kept(self.folder.serve)
        last = last_holder(self.folder.lock)
        engines = servers.figures(self.loads, self.events, self.recipe, self._slots, self._logs, now, kept)
        if phase not in (Phase.RUNNING, Phase.PAUSED, Phase.FILES):
            engines = [servers.past(e) if e.source == "run" else e for e in engines]
            datasets = [msgspec.structs.replace(d, rates=over(d.rates)) for d in datasets]
        rates_now = [e.rate for e in engines if e.rate is not None and now - (e.time or 0) < _SILENT]
        total = together([(d, self.datasets[d.name]) for d in datasets])
        if phase is Phase.RUNNING:
            datasets, total = self._foreseen(datasets, total, engines, now)
        recent = sorted((r for d in self.datasets.values() for r in d.recent()[:10]), key=lambda r: -r.offset)
        return RunFigures(
            path=str(self.folder.path),
            again=self._again(),
            time=now,
            phase=phase,
            started=self.events.began or (self.loads.first[0] if self.loads.first else None),
            seen=self._seen(),
            ending=self.events.ending,
            died=self._died(last),
            pause=self._control.last.pause,
            held=held,
            command=last.command if last else "",
            datasets=datasets,
            total=total,
            engines=engines,
            lanes=self._lanes(),
            server_rate=sum(rates_now) if rates_now else None,
            events=list(self.events.all)[-_EVENTS:],
            recent=recent if len(self.datasets) == 1 else _in_turn([d.recent() for d in self.datasets.values()]),
            disk=self._disk(total),
            max_error_share=self.recipe.max_error_share if self.recipe else 0.05,
            control_fault=self._control_fault,
            unread=self._settings_fault
            + self.loads.unread
            + self.events.unread
            + [unread for log in self._logs for unread in log.unread()]
            + [unread for d in datasets for unread in d.unread],
        )

    def _foreseen(
        self, datasets: list[DatasetFigures], total: DatasetFigures, engines: list[EngineFigures], now: float
    ) -> tuple[list[DatasetFigures], DatasetFigures]:
        """The same figures with their ETAs."""
        last = self.loads.marks[-1] if self.loads.marks and now - self.loads.marks[-1][0] < _SILENT else None
        done = last[1] if last else {}
        work = [self._work(d, done.get(d.name, Done())) for d in datasets]
        progress = self.loads.progress(eta.weights(work, engines))
        together = self.recipe is None or self.recipe.order == "together"
        pace = eta.pace(progress, eta.settling(work, engines))
        whole = eta.foresee(work, engines, pace, together=together, since=now - last[0] if last else 0.0)
        alone = [eta.alone(w, w.figures.rates.last_5min) if pace else None for w in work]
        each = [msgspec.structs.replace(w.figures, eta=left) for w, left in zip(work, alone, strict=True)]
        return each, msgspec.structs.replace(total, eta=whole)

    def _work(self, figures: DatasetFigures, done: Done) -> eta.Work:
        watch = self.datasets[figures.name]
        return eta.Work(figures, watch.lengths(), done.left, float(done.tokens + done.growing), watch.ages())

    def _again(self) -> str | None:
        """The command that the run goes on with; None where its settings cannot be read."""
        if self.recipe is None:
            return None
        if self._quickstart:
            return f"`draftmill quickstart --out {quote(str(self.folder.path))}`"
        return "the same `draftmill run` command"

    def _lanes(self) -> list[LaneFigures]:
        lanes = self.recipe.lanes.items() if self.recipe else ()
        return [
            LaneFigures(name, lane.max_new_tokens, None if lane.concurrency == "auto" else int(lane.concurrency))
            for name, lane in lanes
        ]

    def _dataset(self, name: str, now: float) -> DatasetFigures:
        watch, marks = self.datasets[name], self._marks[name]
        figures = watch.figures()
        recent = lately(name, self.loads, marks, now)
        return msgspec.structs.replace(
            figures,
            rates=rates(name, self.loads, marks, now, watch.generated),
            lost=self._lost(figures),
            recent_answers=recent.answers if recent else 0,
            recent_errors=recent.failed if recent else 0,
        )

    def _lost(self, figures: DatasetFigures) -> bool:
        """Whether a dataset has no answer although rows were built of some, or the last start told of some."""
        told = self.loads.marks[-1][1].get(figures.name) if self.loads.marks else None
        there = bool(figures.written) or bool(told and told.answers)
        return there and not figures.answers and not figures.passed_through

    # the run as a whole

    def _settled(self, datasets: list[DatasetFigures]) -> bool:
        """Whether every dataset of the recipe is there, and none owes anything."""
        wanted = {d.name for d in self.recipe.datasets} if self.recipe else set()
        return bool(wanted) and wanted <= self.datasets.keys() and all(d.owed == 0 for d in datasets)

    def _phase(self, now: float, held: bool | None, settled: bool) -> Phase:
        phase = self.events.phase
        if phase is Phase.NEW and self.recipe is None:
            return Phase.FILES
        if phase is Phase.NEW and settled and not held:  # adopted as a whole, or its events are gone
            return Phase.ENDED
        if phase is Phase.NEW and self.loads.last:
            phase = Phase.RUNNING
        if phase not in (Phase.RUNNING, Phase.PREPARING, Phase.PAUSED):
            return phase
        if phase is Phase.RUNNING and self._control.last.pause:
            phase = Phase.PAUSED
        silent = now - (self._seen() or now) > _SILENT
        if held or (held is None and not silent):
            return phase
        if phase is Phase.PREPARING:  # `draftmill prepare`, or a start that found nothing to do
            return Phase.ENDED if self.events.begun or settled else Phase.NEW
        return Phase.GONE

    def _died(self, last: Holder | None) -> str:
        """What ended the last start before it generated, unless another one has begun since."""
        if self.events.died is None:
            return ""
        time, reason = self.events.died
        at = datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")
        return "" if last and last.since > at else reason

    def _seen(self) -> float | None:
        return max(self.loads.last, self.events.last or 0.0) or None

    def _disk(self, total: DatasetFigures) -> Disk | None:
        try:
            free = shutil.disk_usage(self.folder.path).free
        except OSError:
            return None
        written = sum(d.journal_bytes for d in self.datasets.values())
        tokens, left = total.generated + total.growing, total.eta.remaining if total.eta else None
        if not tokens or left is None:
            return Disk(free)
        each = written / tokens
        return Disk(free, round(each * left + _ROW_SHARE * each * (tokens + left)))


class _Alone(RunFolder):
    """The folder of one dataset that no run is around, as older scripts left them."""

    def dataset(self, name: str) -> DatasetFolder:
        return DatasetFolder(self.path.resolve())


def _opened(path: Path) -> RunFolder:
    """Raises UsageFault where it is one dataset of a run."""
    folder, whole, parent = DatasetFolder(path), RunFolder(path), RunFolder(path.resolve().parent)
    if whole.settings.exists() or not folder.journal.exists():
        return whole
    if parent.settings.exists():
        raise UsageFault(f"{path}: is one dataset of a run", f"give the run's folder: {parent.path}")
    return _Alone(path)


def _in_turn(recents: list[list[Recent]], most: int = 30) -> list[Recent]:
    """Of each dataset the latest, then of each the one before …"""
    return [r[n] for n in range(most) for r in recents if n < len(r)][:most]


def _files(folder: DatasetFolder) -> tuple[Path, Path]:
    return folder.prompts, folder.journal


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
