"""The prompts of a run's datasets: made where there are none yet or too few, rows of other datasets in view."""

from pathlib import Path

from draftmill.errors import RenderError, RunError, SourceError
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.ledger.settings import Settings
from draftmill.mill import copies
from draftmill.mill.beginning import Note
from draftmill.mill.crew import Crew
from draftmill.mill.model import Model
from draftmill.mill.observer import Observer
from draftmill.mill.prepared import Prepared, covers, read_prepared
from draftmill.mill.prompts import Preparation
from draftmill.mill.rendering import Copy
from draftmill.mill.target import context_of
from draftmill.recipe import Dataset, Recipe
from draftmill.render.markers import custom
from draftmill.sources import changed_since, open_source
from draftmill.sources.duplicates import Seen


class Preparing:
    """One look at the datasets of a run. ``base`` is the recipe's folder; ``note`` hears what is worth telling."""

    def __init__(
        self,
        folder: RunFolder,
        settings: Settings,
        recipe: Recipe,
        base: Path,
        model: Model,
        crew: Crew,
        observer: Observer,
        note: Note,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._recipe = recipe
        self._base = base
        self._model = model
        self._crew = crew
        self._observer = observer
        self._note = note

    def look(self, datasets: list[Dataset]) -> None:
        """Open every source that is going to be read, before hours go into the first. Raises SourceError for all that
        cannot be."""
        errors = []
        for dataset in datasets:
            report = read_prepared(self._folder.dataset(dataset.name))
            try:
                if report is None or not covers(report, dataset.samples):
                    open_source(dataset, self._base)
            except SourceError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            faults = [f"{error.message}\n    {error.advice}" if error.advice else error.message for error in errors]
            raise SourceError(f"{len(errors)} of {len(datasets)} datasets cannot be read", faults=faults)

    def of(self, dataset: Dataset) -> Prepared:
        """The report of a dataset's prompts, which are there then."""
        folder = self._folder.dataset(dataset.name)
        report = read_prepared(folder)
        fresh = report is None or not covers(report, dataset.samples)
        if report is not None:
            self._note_changed(dataset, report)
        if report is None or fresh:
            report = self._prepare(dataset, folder)
        self._observer.prepared(dataset.name, report, fresh)
        return report

    def _prepare(self, dataset: Dataset, folder: DatasetFolder) -> Prepared:
        source = open_source(dataset, self._base)
        template = self._model.template
        template.refuse_unknown(self._recipe.template_of(dataset))
        if dataset.native_tools and (lacking := self._model.dialect(dataset).lacks_native_tools):
            raise RenderError(
                f"dataset {dataset.name}: native_tools: this model has no form of its own for tools: {lacking}",
                "take native_tools out: the tools stay as text in the system prompt; or name its `markers`",
            )
        preparation = self._preparation(dataset, self._rivals(dataset))
        folder.prompts_seal.unlink(missing_ok=True)  # the prompts are written anew, the head of them as it was
        report = preparation.run(source)
        self._note("prepared", dataset.name, f"{report.positions} prompts from {report.read} rows ({report.format})")
        return report

    def _preparation(self, dataset: Dataset, rivals: dict[str, Seen]) -> Preparation:
        everything = self._everything()
        names = [each.name for each in everything]
        return Preparation(
            dataset,
            self._folder.dataset(dataset.name),
            seed=self._recipe.seed,
            tokenizer=self._model.tokenizer,
            dialect=self._model.dialect(dataset),
            copy=Copy(
                str(self._folder.tokenizer.resolve()),
                self._settings.date,
                self._recipe.template_of(dataset),
                custom(self._recipe.markers),
                self._recipe.trust_remote_code,
            ),
            crew=self._crew,
            rivals=rivals,
            before=names[: names.index(dataset.name)],
            wanted=copies.wanted(dataset, everything),
            context=context_of(self._recipe, self._base),
            on_progress=lambda read, written: self._observer.preparing(dataset.name, read, written),
        )

    def _everything(self) -> list[Dataset]:
        """All datasets of the run, whichever are worked on: the recipe's, then those that earlier recipes had."""
        now = list(self._recipe.datasets)
        kept = Recipe.model_validate(self._settings.recipe).datasets
        return now + [each for each in kept if each.name not in {d.name for d in now}]

    def _rivals(self, dataset: Dataset) -> dict[str, Seen]:
        """The rows of every dataset that this one gives way to; those that nobody kept yet are read for it."""
        everything = self._everything()
        reports = {d.name: report for d in everything if (report := read_prepared(self._folder.dataset(d.name)))}
        found = {}
        for name in copies.rivals(dataset, everything, reports):
            rival = next(each for each in everything if each.name == name)
            found[name] = self._kept(rival, str(dataset.duplicates), name in reports)
        return found

    def _kept(self, dataset: Dataset, level: str, prepared: bool) -> Seen:
        folder = self._folder.dataset(dataset.name)
        path = copies.kept(folder, level, None) if prepared else None
        if path is None:
            source = open_source(dataset, self._base)
            preparation = self._preparation(dataset, self._rivals(dataset))
            path = copies.kept(folder, level, preparation.key(source))
            if path is None:
                preparation.sign(source)
                path = copies.kept(folder, level, preparation.key(source))
        if path is None:
            raise RunError(f"dataset {dataset.name}: its rows were not kept for the datasets behind it")
        return copies.load(path)

    def _note_changed(self, dataset: Dataset, report: Prepared) -> None:
        """Tell of a source that is not what it was when its prompts were made."""
        if changed := changed_since(dataset, self._base, report.source):
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            self._note(
                "source",
                dataset.name,
                f"{changed[0]}{more} changed since its prompts were made: the run goes on with the prompts that it "
                "has; what is new there takes a new run (another --out), or a dataset of another name in this one",
            )
