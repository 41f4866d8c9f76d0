"""Glaive function calling v2: ``system`` and ``chat``, two texts.

``system`` lists the functions as JSON objects one after the other; in ``chat`` turns begin with ``USER:``,
``ASSISTANT:`` and ``FUNCTION RESPONSE:``, and calls are ``<functioncall> {"name": …, "arguments": '{…}'}``.
"""

import re
from collections.abc import Mapping
from typing import Any

from draftmill.records import Message, Tool
from draftmill.sources import canonical, json_text, literal, text_calls
from draftmill.sources.canonical import ASSISTANT, SYSTEM, TOOL, USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded
from draftmill.sources.thinking import without

NAME = "glaive"

_COLUMN = "chat"
_ROLES = {"USER": USER, "ASSISTANT": ASSISTANT, "FUNCTION RESPONSE": TOOL}
_TURN = re.compile(r"^[ \t]*(USER|ASSISTANT|FUNCTION RESPONSE):", re.MULTILINE)
_FIRST = re.compile(r"\s*(USER|ASSISTANT|FUNCTION RESPONSE):")
_LISTING = re.compile(r",?\s*with access to the following functions\.\s*Use them if required\s*-?", re.IGNORECASE)
_END = "<|endoftext|>"


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like Glaive v2, or None."""
    chat = row.get(column or _COLUMN)
    if not isinstance(chat, str) or not _FIRST.match(chat):
        return None
    return f"column {column or _COLUMN!r} is a text with USER: and ASSISTANT:"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's conversation. Raises RowFault."""
    name = column or _COLUMN
    chat = row.get(name)
    if not isinstance(chat, str):
        raise RowFault(
            f"column {name!r} is {json_text.kind(chat)}, not a text" if name in row else f"no column {name!r}"
        )
    if not _FIRST.match(chat):
        raise RowFault(f"column {name!r} does not begin with USER: or ASSISTANT:")
    system, tools = _system(row.get("system"))
    messages: list[Message] = [{"role": SYSTEM, "content": system}] if system else []
    marks = [mark for mark in _TURN.finditer(chat) if _after_a_blank_line(chat, mark.start())]
    ends = [mark.start() for mark in marks[1:]] + [len(chat)]
    for mark, end in zip(marks, ends, strict=True):
        messages.append(_message(_ROLES[mark[1]], chat[mark.end() : end], f"message {len(messages) + 1}"))
    return recorded({}, messages, tools)


def _after_a_blank_line(chat: str, start: int) -> bool:
    """Whether a turn may begin at this start of a line: what a user quotes inside a paragraph is no turn."""
    end = max(0, start - 1)  # of the line before
    line = chat[chat.rfind("\n", 0, end) + 1 : end]
    return not line.strip()


def _message(role: str, text: str, place: str) -> Message:
    if role != ASSISTANT:
        return {"role": role, "content": text.strip()}
    content, calls = text_calls.calls(without(text), place)
    content = content.replace(_END, "").strip()
    return {"role": role, "content": content, **({"tool_calls": calls} if calls else {})}


def _system(raw: object) -> tuple[str, list[Tool] | None]:
    """The system prompt without the functions that it lists, and these as tools."""
    if raw is None:
        return "", None
    if not isinstance(raw, str):
        raise RowFault(f"column 'system' is {json_text.kind(raw)}, not a text")
    text = raw.strip().removeprefix("SYSTEM:").strip()
    listing = _LISTING.search(text)
    if listing is None:
        return text, None
    try:
        tools = canonical.tools(literal.values(text[listing.end() :]))
    except RowFault as fault:
        raise RowFault(f"column 'system': its functions: {fault.reason}") from None
    return f"{text[: listing.start()].rstrip()}.", tools
