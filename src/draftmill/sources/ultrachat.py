"""UltraChat as it was published: ``data: [user, assistant, user, …]``, one text a turn."""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import columns, turns
from draftmill.sources.canonical import ASSISTANT, USER
from draftmill.sources.history import Recorded, recorded
from draftmill.sources.thinking import without

NAME = "ultrachat"

_COLUMN = "data"


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like raw UltraChat, or None."""
    if column not in (None, _COLUMN) or not turns.texts(row.get(_COLUMN)):
        return None  # a list of texts in a column of another name is as well one of questions
    return f"column {_COLUMN!r} is a list of texts, of user and assistant in turn"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's conversation. Raises RowFault."""
    name = column or _COLUMN
    said = turns.texts(row.get(name))
    if said is None:
        raise columns.absent(row, (name,), "a list of texts")
    messages = [
        {"role": ASSISTANT, "content": without(text)} if n % 2 else {"role": USER, "content": text}
        for n, text in enumerate(turns.whole(name, said))
    ]
    return recorded(row, messages)
