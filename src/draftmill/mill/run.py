"""One run from end to end: the folder under its lock, prompts, engines, the loop, rows, and what came of it."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from draftmill.errors import RecipeError, RunError, StorageError, in_words
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.journal.lock import locked
from draftmill.journal.prompts import read_texts
from draftmill.journal.sent import SentMark
from draftmill.journal.writer import Appender
from draftmill.ledger import settings as frozen_settings
from draftmill.ledger.control import ControlFile
from draftmill.ledger.rows import refresh_rows
from draftmill.ledger.stamp import lost, only_grew
from draftmill.ledger.standing import Standing, load_standing
from draftmill.ledger.told import GOES_ON, PAUSED, paused_as
from draftmill.mill import findings
from draftmill.mill.beginning import accept, begin
from draftmill.mill.crew import Crew
from draftmill.mill.dialogue import Dialogue
from draftmill.mill.drift import Figure, sampled
from draftmill.mill.events import Events
from draftmill.mill.load import answers_told
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.mill.mishaps import Mishaps
from draftmill.mill.observer import Observer
from draftmill.mill.patience import Keeper
from draftmill.mill.preflight import Preflight, fit_open_files
from draftmill.mill.prepared import Prepared, read_prepared
from draftmill.mill.preparing import Preparing
from draftmill.mill.result import Result, Start, read_result
from draftmill.mill.roster import Roster
from draftmill.mill.stream import Stream
from draftmill.mill.target import Target, engine_specs, resolve
from draftmill.mill.voices import Voices, passages
from draftmill.recipe import Control, Dataset, Recipe
from draftmill.records import Conversation
from draftmill.render.findings import Finding
from draftmill.render.tokenizer import Tokenizer

_LOOK_SECONDS = 1.0  # between two looks at the control file
_COMPARED = 8  # prompts of each dataset that are rendered again and tokenized by the engine at a start


class Run:
    """A run whose lock is held. Made by ``open_run``."""

    def __init__(
        self, recipe: Recipe, base: Path, folder: RunFolder, only: tuple[str, ...], observer: Observer, events: Events
    ) -> None:
        self.folder = folder
        self._asked = engine_specs(recipe, base)
        self._only = only
        self._control = ControlFile(folder.control)
        self._follow(self._control.read())
        if not self.recipe.engines:
            raise RunError(f"{folder.control}: takes every engine out of the run", "leave one in it")
        self._base = base
        self._observer = observer
        self._events = events
        self._told: set[Finding] = set()
        self._target: Target = resolve(recipe, base)
        begun = begin(folder, self.recipe, self._target, self.note)
        self.settings, self._model, self._changed = begun.settings, begun.model, begun.changed

    def prepare(self, cores: int | None = None) -> dict[str, Prepared]:
        """Make the prompts of every dataset that has none yet, or too few. Returns each dataset's report.

        ``cores``: processes to do it with, as many as may be used unless given.
        """
        with Crew(cores) as crew:
            preparing = Preparing(
                self.folder, self.settings, self.recipe, self._base, self._model, crew, self._observer, self.note
            )
            preparing.look(self.datasets)
            return {d.name: preparing.of(d) for d in self.datasets}

    def find(self) -> dict[str, list[Finding]]:
        """What was found out about the model, by dataset that it matters to; told where that was not done yet."""
        found = {d.name: findings.about(self._report(d), self._model.dialect(d), d.history) for d in self.datasets}
        for finding, names in findings.together(found).items():
            if finding not in self._told:
                self._told.add(finding)
                whole = len(names) == len(found)
                subject = "run" if whole else ", ".join(names)
                self._events.tell("finding", subject, f"{finding.code}: {finding.message}: {finding.meaning}")
                self._observer.found(finding, [] if whole else names)
        return found

    def mill(
        self,
        limits: Limits,
        *,
        first: int | None = None,
        retry_errors: bool = False,
        servers: Callable[[], AbstractContextManager[Keeper]] | None = None,
    ) -> Result:
        """Generate what is owed, of each dataset's ``first`` positions only where that is given, and write the rows.

        ``servers`` are started where anything is owed, and are there while it is generated.
        """
        standings = self._standings(retry_errors)
        if not any(_owes(standing, first) for standing in standings.values()):
            self.accept()
            result = self.result(Start(Ending.DONE))
            self._events.came_to_something()
            return result
        with _sum_first() as milled:
            with servers() if servers else nullcontext(limits.keeper) as keeper:
                self.find()
                import uvloop

                start = uvloop.run(self._mill(standings, replace(limits, keeper=keeper), first))
                milled()
            return self.result(start)

    def accept(self) -> None:
        """The recipe of this start is the run's from now on: nothing refuses it any more."""
        accept(self.folder, self.settings, self._changed, self.note)

    def result(self, start: Start) -> Result:
        """What stands on the disk after a start; the rows are written where they are not there yet."""

        def look(dataset: Dataset, standing: Standing) -> Figure | None:
            return self._drift(dataset, standing, renew=start.ending is Ending.DONE)

        return read_result(self.folder, self.settings, self.recipe, self.datasets, start, look)

    def decoded(self, dataset: str, count: int) -> Iterator[tuple[str, str]]:
        """(prompt, answer) of a dataset's first rows, as text; the answer begins with the first supervised token."""
        tokenizer = self._model.tokenizer
        with self.folder.dataset(dataset).rows.open("rb") as file:
            for line in islice(file, count):
                row = msgspec.json.decode(line)
                cut = row["loss_mask"].index(1)
                yield tokenizer.decode(row["input_ids"][:cut]), tokenizer.decode(row["input_ids"][cut:])

    def note(self, kind: str, subject: str, message: str) -> None:
        """Tell the observer and the run's events."""
        self._events.tell(kind, subject, message)
        self._observer.note(kind, subject, message)

    # control

    def _follow(self, control: Control) -> None:
        """What the run shall do from now on: its recipe, and what its control file says otherwise."""
        self.recipe = control.over(self._asked)
        self.datasets = [d for d in self.recipe.datasets if not self._only or d.name in self._only]

    def _obey(self, control: Control, loop: Loop, roster: Roster) -> None:
        """The control file has changed while the loop runs. Raises RecipeError where it does not fit the run."""
        self._follow(control)
        merged = frozen_settings.merged(self.settings, self.recipe)
        if merged.recipe != self.settings.recipe:
            self.note("control", "run", "; ".join(frozen_settings.harmless(self.settings, merged)))
            frozen_settings.write_settings(self.folder, merged)
            self.settings = merged
        if control.pause != loop.paused:
            self.note("control", "run", PAUSED if control.pause else GOES_ON)
        loop.pause(control.pause)
        for name, lane in self.recipe.lanes.items():
            loop.set_cap(name, lane.concurrency)
        for stream in loop.streams:
            stream.set_budget(self.recipe.dataset(stream.name).budget)
        roster.want(self.recipe.engines)

    async def _tend(self, loop: Loop, roster: Roster) -> None:
        """While the loop runs: follow the control file, and look after the engines."""
        mishaps = Mishaps(self.note)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                if (control := self._control.news()) is not None:
                    self._obey(control, loop, roster)
            except RecipeError as error:
                self.note("control", "run", "; ".join([error.message, *error.faults]))
            except Exception as error:
                mishaps.hear("run", f"{self._control.path} could not be followed", error)
            try:
                roster.tend(loop)
            except Exception as error:
                mishaps.hear("run", "the engines could not be looked after", error)

    def _drift(self, dataset: Dataset, standing: Standing, *, renew: bool) -> Figure | None:
        """How many of a dataset's answers drift, in a sample. Nothing of that may fail a run."""

        def dialogue() -> Dialogue:
            return Dialogue(self._model.dialect(dataset), self._model.tokenizer, dataset.history)

        try:
            return sampled(self.folder.dataset(dataset.name), standing, dialogue, renew=renew)
        except Exception as error:  # whatever a template, a tokenizer or a disk may raise
            self.note("drift", dataset.name, f"could not be worked out: {error or type(error).__name__}")
            return None

    def _standings(self, retry_errors: bool) -> dict[str, Standing]:
        return {d.name: self._standing(d, retry_errors) for d in self.datasets}

    def _standing(self, dataset: Dataset, retry_errors: bool = False) -> Standing:
        folder = self.folder.dataset(dataset.name)
        standing = load_standing(
            folder,
            samples=dataset.samples,
            budget=dataset.budget,
            counts=dataset.budget_counts,
            retry_errors=retry_errors,
            vocab_size=self.settings.vocab_size,
            seal=True,
        )
        if missing := lost(folder, standing):
            self.note("lost", dataset.name, f"{missing} answers that rows were built of are no longer in its journal")
        if not (standing.known_rows() or standing.unknown_lines) and SentMark(folder.sent).known:
            self._refuse_lost(folder)
        if not only_grew(folder):  # rows of lines that were taken out of it go before these are drawn again
            with suppress(StorageError):  # told at the end, where rows are written
                refresh_rows(folder, standing)
        return standing

    def _refuse_lost(self, folder: DatasetFolder) -> None:
        """Raises StorageError where no answer is left of those that the last start told of: who deleted the journal may
        not have meant to draw everything again."""
        if told := answers_told(self.folder.load, folder.name):
            raise StorageError(
                f"{folder.journal}: its answers are gone, and the last start told of {told}",
                f"restore it; to draw its answers again, delete {folder.sent.name} beside it",
            )

    # milling

    async def _mill(self, standings: dict[str, Standing], limits: Limits, first: int | None) -> Start:
        tokenizer, template = self._model.tokenizer, self._model.template
        self.folder.logs.mkdir(exist_ok=True)
        begun = any(files.journal.exists() and files.journal.stat().st_size for files in self.folder.begun())
        preflight = Preflight(
            gguf=self._target.gguf,
            logs=self.folder.logs,
            tokenizer=tokenizer,
            stop_ids=self.settings.stop_ids,
            texts=self._rendered(tokenizer),
            samplings=[self.recipe.sampling_of(d) for d in self.datasets],
            voices=Voices(
                passages(tokenizer, template, self.recipe.template),
                self.recipe.engine_tolerance,
                self.note,
                self.folder.voices,
                begun=begun,
            ),
            tell=self.note,
            kept=self.folder.engines,
            begun=begun,
        )
        roster = Roster(self.recipe.engines, preflight.take, self.note, preflight.release)
        streams: list[Stream] = []
        load_log = None
        try:
            await roster.open()
            fit_open_files(roster.seats)
            self.accept()
            self._observer.seated(roster.seats, preflight.compared)
            load_log = Appender(self.folder.load)
            streams = [self._stream(d, standings[d.name], first) for d in self.datasets]
            loop = Loop(
                streams,
                roster.seats,
                self.recipe.lanes,
                stop_ids=tuple(self.settings.stop_ids),
                vocab_size=self.settings.vocab_size,
                limits=replace(limits, checkpoint=self.recipe.checkpoint_partials),
                tell=self.note,
                load_log=load_log,
                seed=self.recipe.seed,
                order=self.recipe.order,
            )
            if self._control.last.pause:
                self.note("control", "run", paused_as(self.folder.control))
                loop.pause(True)
            return await self._run_loop(loop, roster)
        finally:
            await roster.close()
            for stream in streams:
                stream.close()
            if load_log:
                load_log.close()

    async def _run_loop(self, loop: Loop, roster: Roster) -> Start:
        self._observer.milling(loop)
        self.note("milling", "run", f"{sum(s.resumed.owed for s in loop.streams)} prompts are owed")
        events = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            events.add_signal_handler(number, loop.stop, Ending.INTERRUPTED)
        started = time.monotonic()
        beside = asyncio.create_task(self._tend(loop, roster))
        beside.add_done_callback(loop.crashed)
        try:
            ending = await loop.run()
        except Exception as error:
            self.note("ended", "run", f"{Ending.FAILED.value}: {in_words(error)}")
            raise
        finally:
            beside.cancel()
            for number in (signal.SIGINT, signal.SIGTERM):  # the sum comes first; a second one ends it
                events.add_signal_handler(number, events.remove_signal_handler, number)
            self._observer.milled()
        self.note("ended", "run", ending.value if loop.error is None else f"{ending.value}: {loop.error.message}")
        return Start(
            ending,
            error=loop.error,
            tokens=sum(s.tokens for s in loop.streams),
            answers=sum(s.answers for s in loop.streams),
            failed=sum(s.failed for s in loop.streams),
            seconds=time.monotonic() - started,
            clamped=loop.clamped,
            suspects=loop.suspects,
        )

    def _report(self, dataset: Dataset) -> Prepared:
        if (report := read_prepared(self.folder.dataset(dataset.name))) is None:
            raise StorageError(
                f"{self.folder.dataset(dataset.name).prepared}: is gone", "run `draftmill prepare` again"
            )
        return report

    def _stream(self, dataset: Dataset, standing: Standing, first: int | None) -> Stream:
        turns = self._report(dataset).most_turns
        many = Dialogue(self._model.dialect(dataset), self._model.tokenizer, dataset.history) if turns > 1 else None
        stream = Stream(
            dataset,
            self.folder.dataset(dataset.name),
            standing,
            sampling=self.recipe.sampling_of(dataset),
            limit=self.recipe.lanes[dataset.lane].max_new_tokens,
            long_limit=self.recipe.lanes[long.lane].max_new_tokens if (long := dataset.long_prompts) else None,
            first=first,
            dialogue=many,
            most_turns=turns,
        )
        if stream.journal.repaired:
            cut = f"{stream.journal.repaired} bytes of a line that was never whole were cut off its journal"
            self.note("repaired", dataset.name, cut)
        if stream.unmarked:
            lost = "its file `sent` is gone or damaged: what was in flight when the run ended last"
            self.note("unmarked", dataset.name, f"{lost} may be drawn again without being marked as such")
        return stream

    def _rendered(self, tokenizer: Tokenizer) -> Iterator[str]:
        """The first prompts of each dataset rendered again, which must give the ids that stand in the run."""
        for dataset in self.datasets:
            prompts = read_texts(self.folder.dataset(dataset.name).prompts)
            dialect = self._model.dialect(dataset)
            for prompt in islice((p for p in prompts if not p.fault and p.loss_mask is None), _COMPARED):
                text = dialect.text(Conversation(prompt.messages, prompt.tools))
                if tokenizer.encode([text])[0] != prompt.prompt_ids:
                    raise RunError(
                        f"dataset {dataset.name}: prompt {prompt.id} renders to other ids than stand in the run",
                        "tokenizers or transformers changed since it was prepared: use the same versions again",
                    )
                yield text


@contextmanager
def open_run(recipe: Recipe, base: Path, out: Path, *, only: tuple[str, ...] = (), observer: Observer) -> Iterator[Run]:
    """Make or continue the run in ``out``, holding its lock. ``base`` is the recipe's folder."""
    folder = RunFolder(out)
    folder.create()
    with locked(folder.lock), Events(folder.events) as events:
        yield Run(recipe, base, folder, only, observer, events)


@contextmanager
def _sum_first() -> Iterator[Callable[[], object]]:
    """From the call of what it yields on, a first Ctrl-C does nothing: all is on the disk, and its sum is told."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield partial(signal.signal, signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, before))
    finally:
        signal.signal(signal.SIGINT, before)


def _owes(standing: Standing, first: int | None) -> bool:
    end = min(standing.cut(), first or standing.positions)
    return any(standing.is_owed(position) for position in range(end))
