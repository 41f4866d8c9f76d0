"""What of a recorded conversation is the prompt: everything up to and including the last user or tool message.

System prompts and earlier turns stay as recorded; what comes after, as a rule the recorded answer, is dropped, since
the target is to write its own.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Conversation, Message, Tool
from draftmill.sources.canonical import SYSTEM, TOOL, USER
from draftmill.sources.fault import RowFault

_SYSTEM_COLUMNS = ("system", "system_prompt")


def prompt_part(messages: list[Message]) -> list[Message]:
    """The messages up to the last one that asks for an answer. Raises RowFault if none does, or if it is empty."""
    end = next((n for n in range(len(messages), 0, -1) if messages[n - 1]["role"] in (USER, TOOL)), 0)
    if not end:
        raise RowFault("no user or tool message" if messages else "no messages")
    if messages[end - 1]["role"] == USER and not messages[end - 1]["content"].strip():
        raise RowFault("the last user message is empty")
    return messages[:end]


def conversation(row: Mapping[str, Any], messages: list[Message], tools: list[Tool] | None = None) -> Conversation:
    """The prompt of a row: its system column, if it has one and the messages have none, and their prompt part."""
    system = next((text for name in _SYSTEM_COLUMNS if isinstance(text := row.get(name), str) and text.strip()), None)
    kept = prompt_part(messages)
    if system is not None and kept[0]["role"] != SYSTEM:
        kept = with_system(kept, system)
    return Conversation(kept, tools)


def with_system(messages: list[Message], system: str) -> list[Message]:
    """The messages with this system prompt in the place of those at their head; "" takes these away."""
    head = next((n for n, message in enumerate(messages) if message["role"] != SYSTEM), len(messages))
    return ([{"role": SYSTEM, "content": system}] if system else []) + messages[head:]
