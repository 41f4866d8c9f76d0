"""A run that is looked at and not worked on: no lock is taken, nothing is written."""

from dataclasses import dataclass
from pathlib import Path

from draftmill.errors import UsageFault
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.journal.index import WORTH
from draftmill.ledger.settings import Settings, read_settings
from draftmill.ledger.standing import Standing, load_standing
from draftmill.recipe import Recipe


@dataclass(frozen=True)
class OpenedRun:
    """``names`` are its datasets that have prompts, those that its recipe has no more among them."""

    folder: RunFolder
    settings: Settings
    recipe: Recipe
    names: list[str]

    def chosen(self, only: tuple[str, ...]) -> tuple[str, ...]:
        """The datasets that are asked for, without ``only`` those that its recipe still has. Raises UsageFault."""
        for name in only:
            if name not in self.names:
                raise UsageFault(f"no dataset {name!r}; there is {', '.join(self.names) or 'none'}")
        return only or tuple(name for name in self.names if name not in self.settings.left_out)

    def left_out(self, only: tuple[str, ...], does: str) -> dict[str, str]:
        """The datasets with answers that ``chosen`` passes over, each with why; ``does`` is what asking does."""
        there = [n for n in self.settings.left_out if n in self.names and self.folder.dataset(n).answered()]
        return {n: f"is left out, since the recipe has it no more; --only {n} {does} it" for n in there if not only}

    def standing(self, name: str, files: DatasetFolder | None = None, worth: int = WORTH) -> Standing:
        """What counts of a dataset, whose files are ``files`` where others are to be read; ``worth`` as in
        ``load_standing``. Raises StorageError."""
        dataset = self.recipe.dataset(name)
        return load_standing(
            files or self.folder.dataset(name),
            samples=dataset.samples,
            budget=dataset.budget,
            counts=dataset.budget_counts,
            vocab_size=self.settings.vocab_size,
            worth=worth,
        )


def open_run(path: Path) -> OpenedRun:
    """Raises UsageFault where there is no run, StorageError for settings that cannot be read."""
    folder = RunFolder(path)
    settings = read_settings(folder)
    if settings is None:
        raise UsageFault(
            f"{path}: holds no run (no {folder.settings.name})", "give the folder that `draftmill run` made"
        )
    recipe = Recipe.model_validate(settings.recipe)
    names = [d.name for d in recipe.datasets if folder.dataset(d.name).prompts.exists()]
    return OpenedRun(folder, settings, recipe, names)
