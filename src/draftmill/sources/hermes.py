"""Hermes function calling and its like: turns of ShareGPT or OpenAI, in whose texts the calls and results stand.

Calls, results and the tools of the system prompt become ``tool_calls``, tool messages and ``tools``, so that the chat
template renders the model's own form. The lines of the system prompt that say how to call go with them.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Message, Tool
from draftmill.sources import canonical, messages, sharegpt, text_calls
from draftmill.sources.canonical import ASSISTANT, SYSTEM, TOOL, USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded

NAME = "hermes"


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like Hermes function calling, or None."""
    turns = _turns(row, column) or []
    texts = (turn.get("content") for turn in turns if isinstance(turn, dict))
    if not any(isinstance(text, str) and text_calls.are_in(text) for text in texts):
        return None
    return "turns hold tool calls or tools as text (<tool_call>, <tools>, <functioncall>)"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's conversation. Raises RowFault."""
    turns = _turns(row, column)
    if turns is None:
        raise messages.absent(row, column)
    kept: list[Message] = []
    listed: list[Tool] = []
    for number, message in enumerate(canonical.messages(turns), start=1):
        place, role, content = f"message {number}", message["role"], message["content"]
        if role == SYSTEM:
            content, found = text_calls.tools(content, place)
            listed += found
            kept += [{**message, "content": content}] if content or not found else []
        elif role == ASSISTANT and "tool_calls" not in message:
            content, calls = text_calls.calls(content, place)
            kept.append({**message, "content": content, **({"tool_calls": calls} if calls else {})})
        elif role in (TOOL, USER) and (results := text_calls.results(content)):
            kept += results
        else:
            kept.append(message)
    distinct = [tool for n, tool in enumerate(listed) if tool not in listed[:n]]
    return recorded(row, kept, messages.tools(row) or distinct or None)


def _turns(row: Mapping[str, Any], column: str | None) -> list[Any] | None:
    try:
        return sharegpt.turns(row, column) or messages.turns(row, column)
    except RowFault:
        return None
