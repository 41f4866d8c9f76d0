"""Where in a row its turns stand, and what to say of a row in which they do not."""

from collections.abc import Mapping, Sequence
from typing import Any

from draftmill.sources import json_text
from draftmill.sources.fault import RowFault


def turns(row: Mapping[str, Any], names: Sequence[str], keys: Sequence[str]) -> tuple[str, list[Any]] | None:
    """The first of these columns that holds objects with one of these keys: its name, and its array."""
    for name in names:
        items = array(row.get(name))
        if items and any(isinstance(item, dict) and any(key in item for key in keys) for item in items):
            return name, items
    return None


def array(value: object) -> list[Any] | None:
    """An array, or a text that holds one as JSON: so it is stored where its items differ from row to row."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            value = json_text.value(value)
        except RowFault:
            return None
    return value if isinstance(value, list) else None


def absent(row: Mapping[str, Any], names: Sequence[str], what: str) -> RowFault:
    """Why none of these columns holds ``what``: they are missing, or the first that is there holds something else."""
    name = next((name for name in names if row.get(name) is not None), None)
    if name is None:
        held = [name for name in names if name in row]
        return RowFault(f"column {held[0]!r} is null" if held else f"no column {names[0]!r} with {what}")
    value = row[name]
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            value = json_text.value(value)
        except RowFault as fault:
            return RowFault(f"column {name!r}: {fault.reason}")
    if value == []:
        return RowFault(f"column {name!r} is an empty array")
    if isinstance(value, list) and isinstance(value[0], dict):
        return RowFault(f"column {name!r} holds objects with {', '.join(map(repr, value[0])) or 'nothing'}, not {what}")
    if isinstance(value, list):
        return RowFault(f"column {name!r} is an array of {json_text.kind(value[0])} first, not {what}")
    return RowFault(f"column {name!r} is {json_text.kind(value)}, not {what}")
