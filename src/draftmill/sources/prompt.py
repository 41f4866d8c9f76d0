"""A plain text column that is the user's message: ``prompt``, ``instruction``, ``question`` …

``tools`` beside it are the functions that the answer may call.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Message
from draftmill.sources import canonical, columns, json_text
from draftmill.sources.canonical import ASSISTANT, USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded
from draftmill.sources.thinking import without

NAME = "prompt"

_COLUMNS = ("prompt", "instruction", "question", "query", "problem", "text", "input")  # the surest first
_ANSWERS = ("response", "completion", "output", "answer")
_PLACEHOLDERS = ("-",)  # OpenCodeReasoning: the text must be fetched from where it was first published


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like a plain prompt, or None."""
    name = _column(row, column)
    return f"column {name!r} is a text" if name else None


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's prompt, and the answer that stands beside it. Raises RowFault."""
    name = _column(row, column)
    if name is None:
        expected = repr(column) if column else ", ".join(_COLUMNS)
        there = next((c for c in ((column,) if column else _COLUMNS) if c in row), None)
        found = f" ({there!r} is {json_text.kind(row[there])})" if there else ""
        raise RowFault(f"no text in column {expected}{found}")
    beside = next((said for each in _ANSWERS if each != name and (said := answer(row.get(each)))), [])
    asked = {"role": USER, "content": text(row, name)}
    return recorded(row, [asked, *beside], canonical.tools(row["tools"]) if _has_tools(row) else None)


def answer(value: object) -> list[Message]:
    """What a row recorded as the answer, where that is a text that says something: it is not sent."""
    said = without(value) if isinstance(value, str) else ""
    return [{"role": ASSISTANT, "content": said}] if said.strip() else []


def text(row: Mapping[str, Any], name: str) -> str:
    """The text of a column. Raises RowFault where it says nothing."""
    value = row.get(name)
    if not isinstance(value, str):
        raise RowFault(
            f"column {name!r} is {json_text.kind(value)}, not a text" if name in row else f"no column {name!r}"
        )
    if not value.strip():
        raise RowFault(f"column {name!r} is empty")
    if value.strip() in _PLACEHOLDERS:
        raise RowFault(f"column {name!r} holds {value.strip()!r}: the text itself is not in this dataset")
    return value


def _has_tools(row: Mapping[str, Any]) -> bool:
    """Whether functions stand beside the text, be they torn; a list of their names is none that a template shows."""
    tools = row.get("tools")
    listed = columns.array(tools)
    if listed is None:
        return isinstance(tools, str) and tools.lstrip()[:1] in ("[", "{")
    return any(isinstance(item, Mapping) for item in listed)


def _column(row: Mapping[str, Any], column: str | None) -> str | None:
    return next((name for name in ((column,) if column else _COLUMNS) if isinstance(row.get(name), str)), None)
