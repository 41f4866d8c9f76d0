"""What of a recorded conversation is asked: its last turn, its first one, or all of them.

Everything up to and including the last user or tool message is read; what comes after, as a rule the recorded answer,
is dropped, since the target is to write its own.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from draftmill.recipe import Turns
from draftmill.records import Conversation, Message, Tool, Turn
from draftmill.sources.canonical import ASSISTANT, SYSTEM, TOOL, USER
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


def conversation(
    row: Mapping[str, Any], messages: list[Message], tools: list[Tool] | None = None, later: Iterable[Turn] = ()
) -> Conversation:
    """The prompt of a row: its system column, if it has one and the messages have none, and their prompt part."""
    system = next((text for name in _SYSTEM_COLUMNS if isinstance(text := row.get(name), str) and text.strip()), None)
    kept = prompt_part(messages)
    if system is not None and kept[0]["role"] != SYSTEM:
        kept = with_system(kept, system)
    return Conversation(kept, tools, list(later))


def asked(conversation: Conversation, turns: Turns) -> Conversation:
    """What a recipe's ``turns`` asks of a conversation that was read: for ``last`` an answer to the whole of it.

    Of one that was recorded without answers only the first can be asked for, or all.
    """
    if conversation.later:
        return conversation if turns == "all" else Conversation(conversation.messages, conversation.tools)
    if turns == "last":
        return conversation
    head, later = split(conversation.messages)
    return Conversation(head, conversation.tools, later if turns == "all" else [])


def split(messages: list[Message]) -> tuple[list[Message], list[Turn]]:
    """A recorded conversation that ends with a user or tool message → the prompt of its first answer, and the turns
    behind that. Answers to nothing, at the head, belong to the prompt."""
    begins = next(n for n, m in enumerate(messages) if m["role"] in (USER, TOOL))
    first = next((n for n in range(begins, len(messages)) if messages[n]["role"] == ASSISTANT), len(messages))
    turns: list[Turn] = []
    recorded: list[Message] = []
    then: list[Message] = []
    for message in messages[first:]:
        if message["role"] != ASSISTANT:
            then.append(message)
            continue
        if then:
            turns.append(Turn(then, recorded))
            recorded, then = [], []
        recorded.append(message)
    return messages[:first], [*turns, Turn(then, recorded)] if then else turns


def with_system(messages: list[Message], system: str) -> list[Message]:
    """The messages with this system prompt in the place of those at their head; "" takes these away."""
    head = next((n for n, message in enumerate(messages) if message["role"] != SYSTEM), len(messages))
    return ([{"role": SYSTEM, "content": system}] if system else []) + messages[head:]
