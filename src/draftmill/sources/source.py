"""One dataset of a recipe as a stream of conversations: where it lies, what format it has, and its rows."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from draftmill.errors import SourceError
from draftmill.recipe import Dataset
from draftmill.records import FilteredRow, SourceRow, TokenizedRow, UnreadRow
from draftmill.sources import formats, hub
from draftmill.sources.files import LocalFiles, Raw, open_files
from draftmill.sources.row import RecordedRow, RowReader

_SAMPLE_ROWS = 50  # readable rows by which the format is judged
_SAMPLE_LINES = 10_000  # and how far they are looked for


@dataclass(frozen=True)
class Source:
    """A dataset that can be read, from its start, as often as wanted.

    ``format`` is the name of its format and ``why`` says in words how it was chosen; ``files`` are the paths, or the
    one name of a hub dataset, as they stand in the ``where`` of the rows.
    """

    format: str
    why: str
    files: tuple[str, ...]
    _origin: LocalFiles | hub.HubDataset
    _dataset: Dataset

    def raw(self) -> Iterator[Raw]:
        """Every row once, in the order of the files, not read yet. Raises SourceError."""
        return self._origin.raw()

    def rows(self) -> Iterator[SourceRow | TokenizedRow | UnreadRow | FilteredRow]:
        """Every row once: its prompt, or why it has none. Raises SourceError."""
        return map(self.reader().row, self.raw())

    def recordings(self) -> Iterator[RecordedRow | TokenizedRow | UnreadRow | FilteredRow]:
        """Every row once with all that it recorded, whatever of it is asked for. Raises SourceError."""
        return map(self.reader().recording, self.raw())

    def reader(self) -> RowReader:
        """What reads its rows."""
        return RowReader(self._dataset, self.format)

    def fingerprint(self) -> dict[str, str]:
        """What tells by file, cheaply, whether the source changed: its size and time, or the hub's revision."""
        return self._origin.fingerprint()


def open_source(dataset: Dataset, base: Path) -> Source:
    """Find a dataset and its format. Relative paths start at ``base``, the recipe's folder. Raises SourceError."""
    origin: LocalFiles | hub.HubDataset
    if dataset.source.startswith(hub.PREFIX):
        origin = hub.open_dataset(dataset.source, dataset.subset)
    else:
        origin = open_files(dataset.source, base)
    sample = _sample(origin)
    _refuse_unknown_columns(dataset, sample)
    chosen, why = formats.choose(dataset.format, sample, dataset.column, origin.names[0])
    return Source(chosen.NAME, why, origin.names, origin, dataset)


def _refuse_unknown_columns(dataset: Dataset, rows: list[dict[str, Any]]) -> None:
    """Raises SourceError for a column of ``where`` that not one of the first rows has: it is misspelt, as a rule."""
    columns = {name for row in rows for name in row}
    for column, wanted in dataset.where.items():
        absent_too = None in (wanted if isinstance(wanted, list) else [wanted])
        if column not in columns and not absent_too:
            close = difflib.get_close_matches(column, columns, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise SourceError(
                f"dataset {dataset.name}: where: none of its first {len(rows)} rows has a column {column!r}",
                f"{hint}the columns are {', '.join(sorted(columns))}",
            )


def _sample(origin: LocalFiles | hub.HubDataset) -> list[dict[str, Any]]:
    first_fault = ""
    rows: list[dict[str, Any]] = []
    for where, row in islice(origin.readings(), _SAMPLE_LINES):
        if isinstance(row, str):
            first_fault = first_fault or f"{where}: {row}"
        else:
            rows.append(row)
            if len(rows) == _SAMPLE_ROWS:
                break
    if not rows:
        place = origin.names[0]
        raise SourceError(f"{place}: holds no row that can be read", first_fault or "it is empty")
    return rows


def changed_since(dataset: Dataset, base: Path, before: dict[str, str]) -> list[str]:
    """The files of a dataset that are not what they were, by their fingerprints of then. Files that cannot be read now
    are passed over, and the hub is not asked."""
    if dataset.source.startswith(hub.PREFIX) or not before:
        return []
    try:
        now = open_files(dataset.source, base).fingerprint()
    except SourceError:
        return []
    return sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
