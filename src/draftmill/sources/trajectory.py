"""Agent trajectories as datasets of the hub hold them: ``trajectory: [{role, …}]``.

SWE-agent's (``role`` system, user or ai, with ``text``, and the system prompt in ``system_prompt``) and OpenHands'
(OpenAI messages in which every key is present and most are null). The prompt ends before the last answer.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import canonical, columns, messages
from draftmill.sources.history import Recorded, before_last_answer, recorded

NAME = "trajectory"

_COLUMN = "trajectory"


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like an agent trajectory, or None."""
    found = columns.turns(row, (column or _COLUMN,), ("role",))
    if found is None or (column and not _has_text(found[1])):
        return None
    return f"column {found[0]!r} is a list of messages with role and {'text' if _has_text(found[1]) else 'content'}"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The trajectory. Raises RowFault."""
    found = columns.turns(row, (column or _COLUMN,), ("role",))
    if found is None:
        raise columns.absent(row, (column or _COLUMN,), "messages with a role")
    said = canonical.messages([_spoken(item) for item in found[1]])
    return recorded({}, said, messages.tools(row), before_last_answer(said))


def _has_text(items: list[Any]) -> bool:
    return any(isinstance(item, dict) and "text" in item for item in items)


def _spoken(item: object) -> object:
    if not isinstance(item, dict) or item.get("content") is not None:
        return item
    text = item.get("text")
    return {**item, "content": item.get("system_prompt") if text in (None, "") and "system_prompt" in item else text}
