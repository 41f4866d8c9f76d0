"""OpenAI messages: ``messages: [{role, content, …}]``, with ``tools`` (or the old ``functions``) beside them.

UltraChat 200k, SWE-smith, Llama-Nemotron (``input``, its answer in ``output``) and many others are in this form;
``messages`` and ``tools`` may be texts that hold JSON.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import canonical, columns, prompt
from draftmill.sources.canonical import ASSISTANT
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded

NAME = "messages"

_COLUMNS = ("messages", "prompt", "input")  # some keep the messages of the prompt apart: preferences, Nemotron
_ANSWERS = ("output", "response")


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like OpenAI messages, or None."""
    found = _find(row, column)
    return f"column {found[0]!r} is a list of messages with role and content" if found else None


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's conversation. Raises RowFault."""
    found = _find(row, column)
    if found is None:
        raise absent(row, column)
    said = canonical.messages(found[1])
    if said and said[-1]["role"] != ASSISTANT:
        said += next((answer for each in _ANSWERS if (answer := prompt.answer(row.get(each)))), [])
    return recorded(row, said, tools(row))


def turns(row: Mapping[str, Any], column: str | None = None) -> list[Any] | None:
    """The messages as they stand in the row, if it has any."""
    found = _find(row, column)
    return found[1] if found else None


def tools(row: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The canonical tools of a row's ``tools`` or ``functions``. Raises RowFault."""
    return canonical.tools(row.get("tools") or row.get("functions"))


def absent(row: Mapping[str, Any], column: str | None) -> RowFault:
    return columns.absent(row, (column,) if column else _COLUMNS, "messages that have a role")


def _find(row: Mapping[str, Any], column: str | None) -> tuple[str, list[Any]] | None:
    return columns.turns(row, (column,) if column else _COLUMNS, ("role",))
