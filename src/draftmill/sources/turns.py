"""A list of user turns, as in MT-bench and Spec-Bench: ``turns: [user, user, …]``.

Only the first turn is asked for: a later one needs the answer to the one before it.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Conversation
from draftmill.sources.canonical import USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import conversation

NAME = "turns"

_COLUMN = "turns"


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like a list of user turns, or None."""
    name = column or _COLUMN
    return f"column {name!r} is a list of user turns" if _is_turns(row.get(name)) else None


def read(row: Mapping[str, Any], column: str | None = None) -> Conversation:
    """The row's first turn as a prompt. Raises RowFault."""
    name = column or _COLUMN
    if not _is_turns(row.get(name)):
        raise RowFault(f"no column {name!r} with a list of texts")
    return conversation(row, [{"role": USER, "content": row[name][0]}])


def _is_turns(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(turn, str) for turn in value)
