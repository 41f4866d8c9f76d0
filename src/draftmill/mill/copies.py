"""Copies of rows within a dataset and across the datasets of a run.

Of two datasets that hold a copy the one that stands earlier in the recipe keeps its row, and the later one drops it,
whichever was prepared first: the later one is compared with all rows of the earlier that were read and passed its
``where`` and ``languages``, whether or not they are among its ``samples``. Those rows are kept as digests and
sketches in ``copies-LEVEL-KEY.npz`` beside its prompts; where an earlier dataset has none yet, its source is read.
A dataset that is put before others when these are prepared already gives way to them: their prompts stand.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from draftmill.errors import StorageError
from draftmill.journal.files import replacing
from draftmill.journal.folder import DatasetFolder
from draftmill.mill.prepared import Prepared
from draftmill.recipe import Dataset
from draftmill.sources.duplicates import Seen, Signature

EXACT, NEAR = "exact duplicate", "near duplicate"
_NAMES = {"exact": EXACT, "near": NEAR}


class Copies:
    """Decides of one row after the other whether it is a copy, and remembers those that are not.

    ``level``: which copies are dropped; ``wanted``: levels at which later datasets will ask; ``rivals``: the rows of
    the datasets that go before, by name.
    """

    def __init__(self, level: str, wanted: Iterable[str], rivals: dict[str, Seen]) -> None:
        self._own = Seen(near=level == "near") if level != "keep" else None
        self._rivals = rivals
        self._kept = {
            each: self._own if each == level and self._own is not None else Seen(near=each == "near")
            for each in sorted(set(wanted))
        }

    def why(self, signatures: list[Signature], first: int) -> list[str | None]:
        """What each row of a batch, the ``first``-th of the dataset and on, is a copy of, in words; None for one that
        stays. The same rows in the same batches give the same."""
        why: list[str | None] = [None] * len(signatures)
        if self._own is not None:
            for name, seen in self._rivals.items():
                left = _staying(why)
                for at, found in zip(left, seen.find([signatures[at] for at in left]), strict=True):
                    why[at] = f"{_NAMES[found[0]]} of {name}" if found else None
            for at, copy in self._shown(self._own, signatures, why, first):
                why[at] = _NAMES[copy]
        for seen in self._kept.values():
            if seen is not self._own:
                for _ in self._shown(seen, signatures, why, first):
                    pass
        return why

    @staticmethod
    def _shown(seen: Seen, signatures: list[Signature], why: list[str | None], first: int) -> Iterator[tuple[int, str]]:
        """Show the rows that stay so far; (which, kind) of each that is a copy."""
        left = _staying(why)
        shown = seen.first([signatures[at] for at in left], [first + at for at in left])
        yield from ((at, found[0]) for at, found in zip(left, shown, strict=True) if found)

    def save(self, folder: DatasetFolder, key: str) -> None:
        """Keep the rows for later datasets, in the place of any that were kept before."""
        for level, seen in self._kept.items():
            path = _path(folder, level, key)
            with replacing(path) as temporary, temporary.open("wb") as file:
                seen.save(file)
            for other in _files(folder, level):
                if other != path:
                    other.unlink()


def _staying(why: list[str | None]) -> list[int]:
    return [at for at, reason in enumerate(why) if reason is None]


def rivals(dataset: Dataset, order: list[Dataset], reports: dict[str, Prepared]) -> list[str]:
    """The datasets that a dataset gives way to. ``order``: all of the run, as the recipe has them; ``reports``: of
    those that are prepared. Of two datasets exactly one gives way to the other."""
    if dataset.duplicates in (None, "keep"):
        return []
    before = {each.name for each in order[: [each.name for each in order].index(dataset.name)]}
    return [
        each.name
        for each in order
        if each.name != dataset.name
        and (dataset.name not in reports[each.name].before if each.name in reports else each.name in before)
    ]


def wanted(dataset: Dataset, order: list[Dataset]) -> set[str]:
    """The levels at which the datasets behind one ask for its rows."""
    behind = order[[each.name for each in order].index(dataset.name) + 1 :]
    return {each.duplicates for each in behind if each.duplicates and each.duplicates != "keep"}


def kept(folder: DatasetFolder, level: str, key: str | None) -> Path | None:
    """The rows that a dataset keeps for others; ``key``: of which preparation, None where it is prepared."""
    if key is not None:
        path = _path(folder, level, key)
        return path if path.exists() else None
    return next(iter(_files(folder, level)), None)


def load(path: Path) -> Seen:
    """Raises StorageError."""
    try:
        with path.open("rb") as file:
            return Seen.load(file)
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be read: {error.strerror or error}", "delete it: it is made again"
        ) from error


def _path(folder: DatasetFolder, level: str, key: str) -> Path:
    return folder.path / f"copies-{level}-{key}.npz"


def _files(folder: DatasetFolder, level: str) -> list[Path]:
    return sorted(folder.path.glob(f"copies-{level}-*.npz"))
