"""What came of a run, read back from its files: what is told is what stands on the disk."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from draftmill.errors import DraftmillError, StorageError
from draftmill.journal.folder import RunFolder
from draftmill.ledger.rows import refresh_rows
from draftmill.ledger.settings import Settings
from draftmill.ledger.stamp import altered
from draftmill.ledger.standing import Standing, Tally, load_standing, unreadable
from draftmill.mill.drift import Figure
from draftmill.mill.loop import Ending
from draftmill.recipe import Dataset, Recipe


@dataclass(frozen=True)
class Start:
    """One start of a run: how it ended, and what was generated in it."""

    ending: Ending
    error: DraftmillError | None = None
    tokens: int = 0
    answers: int = 0
    failed: int = 0
    seconds: float = 0.0
    clamped: int = 0
    suspects: int = 0


@dataclass(frozen=True)
class DatasetResult:
    """What stands of one dataset. ``rows`` are those of ``tokenized_data.jsonl``; ``finishes`` count all answers,
    ``ended`` the conversations that ended before their recording did, by reason.

    ``complaints`` say why it does not call itself complete although nothing is owed, ``damage`` what of its files
    cannot be read. ``drift`` is of a sample of its rows, None where nobody looked. ``altered``: answers were changed
    after their rows had been built, so that an export refuses. ``budget`` is what it was to hold.

    ``continued`` answers took several calls; ``redrawn`` ones were drawn again after an interruption lost their
    beginning, which makes the data shorter.
    """

    name: str
    tally: Tally
    rows: int
    finishes: Counter[str]
    ended: Counter[str]
    continued: int
    redrawn: int
    exhausted: bool
    complaints: list[str]
    damage: list[str]
    drift: Figure | None = None
    altered: bool = False
    budget: int | None = None


@dataclass(frozen=True)
class Result:
    """What stands of a whole run, after a start of it."""

    datasets: list[DatasetResult]
    start: Start

    @property
    def owed(self) -> int:
        return sum(d.tally.owed for d in self.datasets)

    @property
    def complaints(self) -> list[str]:
        """Why a run does not call itself complete although nothing is owed."""
        return [complaint for d in self.datasets for complaint in d.complaints]

    @property
    def damage(self) -> list[str]:
        """Lines that cannot be read. What they stood for is owed, or stands elsewhere."""
        return [line for d in self.datasets for line in d.damage]


def read_result(
    folder: RunFolder,
    settings: Settings,
    recipe: Recipe,
    datasets: list[Dataset],
    start: Start,
    drift: Callable[[Dataset, Standing], Figure | None] = lambda _dataset, _standing: None,
) -> Result:
    """Work out every dataset's standing from its files, and bring its rows up to date. ``drift`` looks at a sample."""
    return Result([_dataset_result(folder, settings, recipe, dataset, drift) for dataset in datasets], start)


def _dataset_result(
    folder: RunFolder,
    settings: Settings,
    recipe: Recipe,
    dataset: Dataset,
    drift: Callable[[Dataset, Standing], Figure | None],
) -> DatasetResult:
    files = folder.dataset(dataset.name)
    standing = load_standing(
        files,
        samples=dataset.samples,
        budget=dataset.budget,
        counts=dataset.budget_counts,
        vocab_size=settings.vocab_size,
    )
    tally = standing.tally()
    complaints = []
    settled = tally.counting + tally.error
    if settled and tally.error / settled > recipe.max_error_share:
        share, most = tally.error / settled, recipe.max_error_share
        which = f"{share:.1%} of its prompts became errors ({tally.error})"
        complaints.append(f"{dataset.name}: {which}; allowed are {most:.1%}")
    if standing.strays:
        which = "1 line belongs" if standing.strays == 1 else f"{standing.strays} lines belong"
        complaints.append(f"{files.journal}: {which} to no position, or to one that has its own")
    if not tally.adds_up():
        complaints.append(f"{dataset.name}: the states of its positions do not add up")
    rows = 0
    try:
        rows = refresh_rows(files, standing)
    except StorageError as error:  # a full disk: the journal stands, and the rows are built at the next start
        complaints.append(error.message)
    if told := altered(files):
        complaints.append("; ".join(told))
    return DatasetResult(
        dataset.name,
        tally,
        rows,
        standing.finishes,
        standing.ended,
        standing.continued,
        standing.redrawn,
        standing.exhausted(),
        complaints,
        unreadable(files, standing),
        drift(dataset, standing),
        altered=bool(told),
        budget=dataset.budget,
    )
