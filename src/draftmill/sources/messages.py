"""OpenAI messages: ``messages: [{role, content, …}]``, with ``tools`` (or the old ``functions``) beside them."""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Conversation
from draftmill.sources import canonical
from draftmill.sources.fault import RowFault
from draftmill.sources.history import conversation

NAME = "messages"

_COLUMNS = ("messages", "prompt")  # some preference datasets keep the messages of the prompt apart


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like OpenAI messages, or None."""
    name = _column(row, column)
    return f"column {name!r} is a list of messages with role and content" if name else None


def read(row: Mapping[str, Any], column: str | None = None) -> Conversation:
    """The row's prompt. Raises RowFault."""
    name = _column(row, column)
    if name is None:
        raise RowFault(f"no column {column or 'messages'!r} with messages that have a role")
    return conversation(row, canonical.messages(row[name]), canonical.tools(row.get("tools") or row.get("functions")))


def _column(row: Mapping[str, Any], column: str | None) -> str | None:
    return next((name for name in ((column,) if column else _COLUMNS) if _has_roles(row.get(name))), None)


def _has_roles(value: object) -> bool:
    return isinstance(value, list) and bool(value) and any(isinstance(i, dict) and "role" in i for i in value)
