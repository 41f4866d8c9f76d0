"""A list of user turns, as in MT-bench and Spec-Bench: ``turns: [user, user, …]``.

A later turn needs the answer to the one before it, so only the first is asked for unless ``turns: all`` is.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Conversation, Turn
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
    """The row's first turn as a prompt, with the others behind it. Raises RowFault."""
    name = column or _COLUMN
    if not _is_turns(row.get(name)):
        raise RowFault(f"no column {name!r} with a list of texts")
    first, *others = ({"role": USER, "content": text} for text in row[name])
    return conversation(row, [first], later=[Turn([other]) for other in others])


def _is_turns(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(turn, str) for turn in value)
