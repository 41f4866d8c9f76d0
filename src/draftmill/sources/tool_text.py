"""Tool definitions that a dataset wrote into its system prompt as text, lifted out into ``tools``.

Glaive's function-calling data is the model for it: "You are a helpful assistant with access to the following functions.
Use them if required -", then JSON objects one after the other. Rendered as they stand, such prompts show a model its
tools in a form that it never saw in training; as ``tools`` the chat template renders the model's own.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from draftmill.records import Conversation, Message, Tool
from draftmill.sources import canonical
from draftmill.sources.canonical import SYSTEM
from draftmill.sources.fault import RowFault

_decoder = json.JSONDecoder(strict=False)  # line ends inside strings: they were written by hand
_WRAPPERS = ("tools", "functions")  # objects that hold the definitions in a list of their own

# what introduces or surrounds definitions and says nothing without them → what is left of it
_PROSE = (
    # Hermes: how to call, from the first word to the example
    (re.compile(r"You are a function calling AI model\b.*</tool_call>", re.DOTALL), ""),
    (re.compile(r",?\s*with access to the following functions\.\s*Use them if required\s*-?", re.IGNORECASE), "."),
    (re.compile(r"<tools>[\s,]*</tools>"), ""),
)
_LEFT = re.compile(r'"(?:name|function)"\s*:.*"(?:parameters|description)"\s*:', re.DOTALL)


class Lift(msgspec.Struct, frozen=True):
    """What came of a conversation: with ``tools`` definitions lifted it is another one, with none the same.

    ``fault`` says why definitions that seem to be there were left where they are.
    """

    conversation: Conversation
    tools: int = 0
    fault: str = ""


def lift(conversation: Conversation) -> Lift:
    """Lift the definitions of the system prompts. All of them or none: half of them in each form helps nobody.

    Tools that the conversation has already stay as they are, and only the text goes.
    """
    found: list[Tool] = []
    messages: list[Message] = []
    for message in conversation.messages:
        if message["role"] != SYSTEM:
            messages.append(message)
            continue
        text, tools = _without_definitions(message["content"])
        if tools and _LEFT.search(text):
            return Lift(conversation, fault="some of the tool definitions in the system prompt are not JSON")
        found += tools
        if not tools:
            messages.append(message)
        elif text:
            messages.append({**message, "content": text})
    if not found:
        return Lift(conversation)
    distinct = [tool for n, tool in enumerate(found) if tool not in found[:n]]
    tools = conversation.tools or distinct
    return Lift(msgspec.structs.replace(conversation, messages=messages, tools=tools), len(distinct))


def has_tool_text(conversation: Conversation) -> bool:
    """Whether a system prompt holds tool definitions as text."""
    return any(
        next(_definitions(message["content"]), None) is not None
        for message in conversation.messages
        if message["role"] == SYSTEM
    )


def _without_definitions(text: str) -> tuple[str, list[Tool]]:
    """The prose of a system prompt and the tools in it; without tools the text stays as it is."""
    tools: list[Tool] = []
    prose, last = "", 0
    for start, end, found in _definitions(text):
        prose += text[last:start]
        last = end
        tools += found
    if not tools:
        return text, []
    prose += text[last:]
    for pattern, instead in _PROSE:
        prose = pattern.sub(instead, prose)
    return re.sub(r"[\s,;]*\Z", "", prose).lstrip(), tools


def _definitions(text: str) -> Iterator[tuple[int, int, list[Tool]]]:
    """(start, end, tools) of each JSON value that defines tools, in order."""
    here = 0
    while match := re.compile(r"[{\[]").search(text, here):
        try:
            value, end = _decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            here = match.end()
            continue
        here = end
        if tools := _tools(value):
            yield match.start(), end, tools


def _tools(value: Any) -> list[Tool]:
    """The tools that a JSON value defines, or none: all of a list must be definitions."""
    if isinstance(value, dict):
        inner = next((value[key] for key in _WRAPPERS if isinstance(value.get(key), list)), None)
        if inner is not None and len(value) == 1:
            return _tools(inner)
        value = [value]
    if not isinstance(value, list) or not value or not all(map(_is_definition, value)):
        return []
    try:
        return canonical.tools(value) or []
    except RowFault:
        return []


def _is_definition(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    function = value.get("function") if value.get("type") == "function" and "function" in value else value
    return (
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and ("parameters" in function or "description" in function)
    )
