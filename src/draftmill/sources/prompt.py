"""A plain text column that is the user's message: ``prompt``, ``instruction`` (with ``input``), ``question`` …"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Conversation
from draftmill.sources import json_text
from draftmill.sources.canonical import USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import conversation

NAME = "prompt"

_COLUMNS = ("prompt", "instruction", "question", "query", "problem", "text", "input")  # the surest first


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like a plain prompt, or None."""
    name = _column(row, column)
    if name is None:
        return None
    return f"column {name!r} is a text" + (", with its input below it" if _input(row, name) else "")


def read(row: Mapping[str, Any], column: str | None = None) -> Conversation:
    """The row's prompt: one user message. Raises RowFault."""
    name = _column(row, column)
    if name is None:
        expected = repr(column) if column else ", ".join(_COLUMNS)
        found = f" (it is {json_text.kind(row[column])})" if column and column in row else ""
        raise RowFault(f"no text in column {expected}{found}")
    if not row[name].strip():
        raise RowFault(f"column {name!r} is empty")
    return conversation(row, [{"role": USER, "content": "\n\n".join(filter(None, (row[name], _input(row, name))))}])


def _column(row: Mapping[str, Any], column: str | None) -> str | None:
    return next((name for name in ((column,) if column else _COLUMNS) if isinstance(row.get(name), str)), None)


def _input(row: Mapping[str, Any], name: str) -> str:
    """What an instruction works on: ``input``, or in self-instruct seeds that of the first instance."""
    if name != "instruction":
        return ""
    found, instances = row.get("input"), row.get("instances")
    if found is None and isinstance(instances, list) and instances and isinstance(instances[0], dict):
        found = instances[0].get("input")
    return found if isinstance(found, str) and found.strip() else ""
