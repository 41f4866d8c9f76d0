"""SWE-agent trajectories as it writes them (``.traj``): ``history: [{role, content, agent, thought, action, …}]``.

What the environment says comes as ``user`` or, after ``tool_calls``, as ``tool``. Demonstrations at the head are left
out: their turns are none of this trajectory's, and they are the same in every one. The prompt ends before the last
answer: what came of the agent's last action is recorded, but nobody answers it.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import canonical, columns, messages
from draftmill.sources.history import Recorded, before_last_answer, recorded

NAME = "sweagent"

_COLUMNS = ("history", "messages", "trajectory")
_MARKS = ("agent", "message_type", "thought", "action", "is_demo", "tool_call_ids")


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like SWE-agent's history, or None."""
    found = _find(row, column)
    if found is None:
        return None
    mark = next(mark for mark in _MARKS if any(isinstance(item, dict) and mark in item for item in found[1]))
    return f"column {found[0]!r} is a list of messages with role and {mark!r}"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The trajectory. Raises RowFault."""
    found = _find(row, column)
    if found is None:
        raise columns.absent(row, (column,) if column else _COLUMNS, "messages with role and agent")
    own = [item for item in found[1] if not (isinstance(item, dict) and item.get("is_demo"))]
    history = canonical.messages([_spoken(item) for item in own])
    return recorded({}, history, messages.tools(row), before_last_answer(history))


def _find(row: Mapping[str, Any], column: str | None) -> tuple[str, list[Any]] | None:
    for name in (column,) if column else _COLUMNS:
        found = columns.turns(row, (name,), ("role",))
        if found and any(isinstance(item, dict) and any(mark in item for mark in _MARKS) for item in found[1]):
            return found
    return None


def _spoken(item: object) -> object:
    """A message whose content, where it has none, is put together from thought and action, as the agent writes it."""
    if not isinstance(item, dict) or item.get("content") or item.get("role") != canonical.ASSISTANT:
        return item
    thought, action = (text if isinstance(text := item.get(key), str) else "" for key in ("thought", "action"))
    if item.get("tool_calls"):
        return {**item, "content": thought}
    return {**item, "content": "\n".join(filter(None, (thought.strip(), f"```\n{action.strip()}\n```" * bool(action))))}
