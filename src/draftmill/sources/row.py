"""One row of a dataset → its conversation, its ids, or why it gives none. Needs no file: any process can read rows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from draftmill.recipe import Dataset
from draftmill.records import Conversation, FilteredRow, SourceRow, TokenizedRow, UnreadRow, Where
from draftmill.sources import formats, lines
from draftmill.sources.fault import Lost, RowFault
from draftmill.sources.files import Raw
from draftmill.sources.history import Recorded, asked, with_system
from draftmill.sources.tokenized import Tokenized


class RecordedRow(NamedTuple):
    """A row's whole conversation, and where it stands."""

    where: Where
    recorded: Recorded


class RowReader:
    """Reads the rows of one dataset, whose format is known by now."""

    def __init__(self, dataset: Dataset, format: str) -> None:
        self._dataset = dataset
        self._format = formats.named(format, dataset.name)
        self._where = {column: _values(wanted) for column, wanted in dataset.where.items()}

    def row(self, raw: Raw) -> SourceRow | TokenizedRow | UnreadRow | FilteredRow:
        """The prompt of a row, or why it has none.

        A system prompt in the recipe replaces the recorded one ("" takes it away).
        """
        row = self.recording(raw)
        if not isinstance(row, RecordedRow):
            return row
        conversation = asked(row.recorded, self._dataset.turns)
        if (system := self._dataset.system) is not None:
            messages = with_system(conversation.messages, system)
            conversation = Conversation(messages, conversation.tools, conversation.later)
        return SourceRow(row.where, conversation)

    def recording(self, raw: Raw) -> RecordedRow | TokenizedRow | UnreadRow | FilteredRow:
        """All that a row recorded, whatever of it is asked for."""
        file, line, row = raw
        where = Where(file, line)
        if isinstance(row, bytes):
            row = lines.decoded(row)
        if isinstance(row, str):
            return UnreadRow(where, str(row), isinstance(row, Lost))
        if (column := self._left_out(row)) is not None:
            return FilteredRow(where, column)
        try:
            read = formats.attempt(self._format, row, self._dataset.column)
        except RowFault as fault:
            return UnreadRow(where, fault.reason)
        if isinstance(read, Tokenized):
            return TokenizedRow(where, read.input_ids, read.loss_mask)
        return RecordedRow(where, read)

    def _left_out(self, row: Mapping[str, Any]) -> str | None:
        """The first column of the recipe's ``where`` that has another value here."""
        for column, wanted in self._where.items():
            value = row.get(column)
            if not any(value == w and isinstance(value, bool) == isinstance(w, bool) for w in wanted):
                return column
        return None


def _values(wanted: object) -> list[object]:
    return wanted if isinstance(wanted, list) else [wanted]
