"""A list of user turns, as in MT-bench and Spec-Bench: ``turns: [user, user, …]``.

The first turn is the prompt; a later one needs the answer to the one before it.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import columns, json_text
from draftmill.sources.canonical import USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, asked_in_turn

NAME = "turns"

_COLUMN = "turns"


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like a list of user turns, or None."""
    name = column or _COLUMN
    return f"column {name!r} is a list of user turns" if texts(row.get(name)) else None


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's first turn as a prompt, and the others. Raises RowFault."""
    name = column or _COLUMN
    said = texts(row.get(name))
    if said is None:
        raise columns.absent(row, (name,), "a list of texts")
    return asked_in_turn(row, [[{"role": USER, "content": text}] for text in whole(name, said)])


def texts(value: object) -> list[Any] | None:
    """A list that begins with a text, or None."""
    return value if isinstance(value, list) and value and isinstance(value[0], str) else None


def whole(name: str, said: list[Any]) -> list[str]:
    """The same list. Raises RowFault where an item is no text, or says nothing."""
    for number, text in enumerate(said, start=1):
        if not isinstance(text, str):
            raise RowFault(f"item {number} of {name!r} is {json_text.kind(text)}, not a text")
        if not text.strip():
            raise RowFault(f"item {number} of {name!r} is empty")
    return said
