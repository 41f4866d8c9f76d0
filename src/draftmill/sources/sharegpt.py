"""ShareGPT: ``conversations: [{from, value}]`` (or ``{role, content}``), with roles such as human and gpt.

Turns stay as they were recorded: a conversation may start with an answer and hold several turns of one role in a row.
The turns ``function_call`` hold calls as JSON or as a Python literal, and ``observation`` what came of them.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import canonical, columns, literal
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded
from draftmill.sources.messages import tools

NAME = "sharegpt"

_COLUMNS = ("conversations", "conversation", "messages")
_CALLS = ("function_call", "tool_call")  # turns whose value is the call, as JSON


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like ShareGPT, or None."""
    found = _find(row, column)
    if found is None:
        return None
    first = next(turn for turn in found[1] if isinstance(turn, dict))
    return f"column {found[0]!r} is a list of turns with {'from and value' if 'from' in first else 'role and content'}"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's conversation. Raises RowFault."""
    messages = turns(row, column)
    if messages is None:
        raise columns.absent(row, (column,) if column else _COLUMNS, "turns that have from and value")
    return recorded(row, canonical.messages(messages), tools(row))


def turns(row: Mapping[str, Any], column: str | None = None) -> list[Any] | None:
    """The turns as messages with role and content, if the row has any. Raises RowFault for a call that is none."""
    found = _find(row, column)
    return [_message(turn, f"message {n}") for n, turn in enumerate(found[1], start=1)] if found else None


def _find(row: Mapping[str, Any], column: str | None) -> tuple[str, list[Any]] | None:
    for name in (column,) if column else _COLUMNS:
        keys = ("from",) if name == "messages" else ("from", "role")
        if found := columns.turns(row, (name,), keys):
            return found
    return None


def _message(turn: object, place: str) -> object:
    if not isinstance(turn, dict):
        return turn
    role = turn.get("from", turn.get("role"))
    content = turn.get("value", turn.get("content"))
    if isinstance(role, str) and role.strip().lower() in _CALLS:
        return {"role": canonical.ASSISTANT, "tool_calls": canonical.tool_calls(_calls(content, place), place)}
    return {**turn, "role": role, "content": content}


def _calls(content: object, place: str) -> object:
    if not isinstance(content, str):
        return content
    try:
        return literal.value(content)
    except RowFault as fault:
        raise RowFault(f"{place}: tool_calls: {fault.reason}") from None
