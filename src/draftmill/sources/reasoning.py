"""Reasoning sets such as OpenThoughts and OpenCodeReasoning: answers that begin with recorded thinking.

Conversations in ShareGPT's or OpenAI's form, or columns such as ``input`` and ``output``. The thinking is left out, and
with it a system prompt that asks for it between marks: a model that thinks has marks of its own.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import alpaca, canonical, messages, prompt, sharegpt, thinking
from draftmill.sources.canonical import SYSTEM
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded

NAME = "reasoning"

_ANSWERS = ("output", "response", "answer", "solution", "generation", "completion", "deepseek_reasoning")


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like a reasoning set, or None."""
    turns = _turns(row, column)
    if turns is None:
        answers = [row[name] for name in _ANSWERS if isinstance(row.get(name), str)]
        where = "an answer" if prompt.recognise(row, column) else ""
    else:
        answers = [t["content"] for t in turns if isinstance(t, dict) and isinstance(t.get("content"), str)]
        where = "a turn"
    return f"{where} begins with recorded thinking" if where and any(map(thinking.is_in, answers)) else None


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's conversation without recorded thinking. Raises RowFault."""
    row = {k: v for k, v in row.items() if not (k == "system" and isinstance(v, str) and thinking.is_prescribed(v))}
    turns = _turns(row, column)
    if turns is None:
        return alpaca.read(row, column) if alpaca.recognise(row, column) else prompt.read(row, column)
    said = canonical.messages(turns)
    kept = [m for m in said if not (m["role"] == SYSTEM and thinking.is_prescribed(m["content"]))]
    return recorded(row, kept, messages.tools(row))


def _turns(row: Mapping[str, Any], column: str | None) -> list[Any] | None:
    try:
        return sharegpt.turns(row, column) or messages.turns(row, column)
    except RowFault:
        return None
