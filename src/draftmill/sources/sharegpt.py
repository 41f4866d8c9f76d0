"""ShareGPT: ``conversations: [{from, value}]`` (or ``{role, content}``), with roles such as human and gpt.

Turns stay as they were recorded: a conversation may start with an answer and hold several turns of one role in a row.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Conversation
from draftmill.sources import canonical
from draftmill.sources.fault import RowFault
from draftmill.sources.history import conversation

NAME = "sharegpt"

_COLUMNS = ("conversations", "conversation", "messages")
_CALLS = ("function_call", "tool_call")  # turns whose value is the call, as JSON


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like ShareGPT, or None."""
    name = _column(row, column)
    if name is None:
        return None
    first = next(turn for turn in row[name] if isinstance(turn, dict))
    return f"column {name!r} is a list of turns with {'from and value' if 'from' in first else 'role and content'}"


def read(row: Mapping[str, Any], column: str | None = None) -> Conversation:
    """The row's prompt. Raises RowFault."""
    name = _column(row, column)
    if name is None:
        raise RowFault(f"no column {column or 'conversations'!r} with turns that have from and value")
    turns = [_message(turn, f"message {number}") for number, turn in enumerate(row[name], start=1)]
    return conversation(row, canonical.messages(turns), canonical.tools(row.get("tools") or row.get("functions")))


def _column(row: Mapping[str, Any], column: str | None) -> str | None:
    return next((name for name in ((column,) if column else _COLUMNS) if _has_turns(row.get(name), name)), None)


def _has_turns(value: object, name: str) -> bool:
    keys = ("from",) if name == "messages" else ("from", "role")
    return isinstance(value, list) and any(isinstance(i, dict) and any(key in i for key in keys) for i in value)


def _message(turn: object, place: str) -> object:
    if not isinstance(turn, dict):
        return turn
    role = turn.get("from", turn.get("role"))
    content = turn.get("value", turn.get("content"))
    if role in _CALLS:
        return {"role": canonical.ASSISTANT, "tool_calls": canonical.tool_calls(content, place)}
    return {**turn, "role": role, "content": content}
