"""One dataset of a recipe as a stream of conversations: where it lies, what format it has, and its rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from draftmill.errors import SourceError
from draftmill.recipe import Dataset
from draftmill.records import Conversation, SourceRow, TokenizedRow, UnreadRow, Where
from draftmill.sources import formats, hub
from draftmill.sources.fault import RowFault
from draftmill.sources.files import LocalFiles, open_files
from draftmill.sources.history import Recorded, asked, with_system
from draftmill.sources.tokenized import Tokenized

_SAMPLE_ROWS = 50  # readable rows by which the format is judged
_SAMPLE_LINES = 10_000  # and how far they are looked for


class RecordedRow(NamedTuple):
    """A row's whole conversation, and where it stands."""

    where: Where
    recorded: Recorded


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
    _reader: formats.Format
    _dataset: Dataset

    def rows(self) -> Iterator[SourceRow | TokenizedRow | UnreadRow]:
        """Every row once, in the order of the files: its prompt, or why it has none. Raises SourceError.

        A system prompt in the recipe replaces the recorded one ("" takes it away).
        """
        for row in self.recordings():
            if not isinstance(row, RecordedRow):
                yield row
                continue
            conversation = asked(row.recorded, self._dataset.turns)
            if (system := self._dataset.system) is not None:
                messages = with_system(conversation.messages, system)
                conversation = Conversation(messages, conversation.tools, conversation.later)
            yield SourceRow(row.where, conversation)

    def recordings(self) -> Iterator[RecordedRow | TokenizedRow | UnreadRow]:
        """Every row once with all that it recorded, whatever of it is asked for. Raises SourceError."""
        for where, row in self._origin.readings():
            if isinstance(row, str):
                yield UnreadRow(where, row)
                continue
            try:
                read = formats.attempt(self._reader, row, self._dataset.column)
            except RowFault as fault:
                yield UnreadRow(where, fault.reason)
                continue
            if isinstance(read, Tokenized):
                yield TokenizedRow(where, read.input_ids, read.loss_mask)
            else:
                yield RecordedRow(where, read)

    def fingerprint(self) -> dict[str, str]:
        """What tells by file, cheaply, whether the source changed: its size and time, or the hub's revision."""
        return self._origin.fingerprint()


def open_source(dataset: Dataset, base: Path) -> Source:
    """Find a dataset and its format. Relative paths start at ``base``, the recipe's folder. Raises SourceError."""
    if dataset.format != formats.AUTO:
        formats.named(dataset.format, dataset.name)  # a wrong name is told before anything is loaded
    origin: LocalFiles | hub.HubDataset
    if dataset.source.startswith(hub.PREFIX):
        origin = hub.open_dataset(dataset.source, dataset.subset)
    elif dataset.subset is not None:
        raise SourceError(f"{dataset.name}: subset is for hub datasets; {dataset.source} is a file")
    else:
        origin = open_files(dataset.source, base)
    reader, why = formats.choose(dataset.format, _sample(origin), dataset.column, origin.names[0])
    return Source(reader.NAME, why, origin.names, origin, reader, dataset)


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
