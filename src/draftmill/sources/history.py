"""What of a recorded conversation is the prompt, and what was recorded after it.

The prompt ends with the last user or tool message, unless a format says otherwise. System prompts and earlier turns
stay as recorded; the answer after it is not part of it, since the target is to write its own. Nothing is thrown away:
prompt and ``later`` together are the whole conversation.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from draftmill.recipe import Turns
from draftmill.records import Conversation, Message, Tool, Turn
from draftmill.sources.canonical import ASSISTANT, SYSTEM, TOOL, USER
from draftmill.sources.fault import RowFault

_SYSTEM_COLUMNS = ("system", "system_prompt")


class Recorded(msgspec.Struct, frozen=True):
    """A conversation as a row recorded it: its prompt, and the messages after that."""

    prompt: Conversation
    later: list[Message] = []


def recorded(
    row: Mapping[str, Any], messages: list[Message], tools: list[Tool] | None = None, end: int | None = None
) -> Recorded:
    """The conversation of a row; ``end`` messages are its prompt, or those up to the last that asks for an answer.

    A system column counts where the messages have no system prompt. Raises RowFault for what is no conversation.
    """
    end = _last_ask(messages) if end is None else end
    _check(messages, end)
    system = next((text for name in _SYSTEM_COLUMNS if isinstance(text := row.get(name), str) and text.strip()), None)
    prompt = messages[:end]
    if system is not None and prompt[0]["role"] != SYSTEM:
        prompt = with_system(prompt, system)
    return Recorded(Conversation(prompt, tools), messages[end:])


def asked_in_turn(row: Mapping[str, Any], rounds: list[list[Message]], tools: list[Tool] | None = None) -> Recorded:
    """Rounds of which no answer was recorded: the first is the prompt, each later one needs the answer before it."""
    messages = list(rounds[0])
    for asked in rounds[1:]:
        messages += [{"role": ASSISTANT, "content": ""}, *asked]
    return recorded(row, messages, tools, end=len(rounds[0]))


def before_last_answer(messages: list[Message]) -> int | None:
    """How many messages the last answer is an answer to: an episode ends with what nobody answered. None: all."""
    last = next((n for n in range(len(messages) - 1, 0, -1) if messages[n]["role"] == ASSISTANT), 0)
    return next((n for n in range(last, 0, -1) if messages[n - 1]["role"] in (USER, TOOL)), None)


def asked(read: Recorded, turns: Turns) -> Conversation:
    """What a recipe's ``turns`` asks of a conversation: for ``last`` an answer to the whole of its prompt.

    Of rounds that nobody answered all can be asked for, or the first.
    """
    prompt = read.prompt
    if turns == "last":
        return prompt
    unanswered = any(map(is_blank, read.later))
    head, later = split(prompt.messages + (read.later if unanswered else []))
    return Conversation(head, prompt.tools, later if turns == "all" else [])


def split(messages: list[Message]) -> tuple[list[Message], list[Turn]]:
    """A recorded conversation → the prompt of its first answer, and the turns behind that. Answers to nothing, at the
    head, belong to the prompt; what nobody said is no recorded answer."""
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
        if not is_blank(message):
            recorded.append(message)
    return messages[:first], [*turns, Turn(then, recorded)] if then else turns


def with_system(messages: list[Message], system: str) -> list[Message]:
    """The messages with this system prompt in the place of those at their head; "" takes these away."""
    head = next((n for n, message in enumerate(messages) if message["role"] != SYSTEM), len(messages))
    return ([{"role": SYSTEM, "content": system}] if system else []) + messages[head:]


def is_blank(message: Message) -> bool:
    """Whether this stands where an answer belongs that nobody recorded."""
    return message["role"] == ASSISTANT and not message["content"] and not message.get("tool_calls")


def _last_ask(messages: list[Message]) -> int:
    end = next((n for n in range(len(messages), 0, -1) if messages[n - 1]["role"] in (USER, TOOL)), 0)
    if not end:
        raise RowFault("no user or tool message" if messages else "no messages")
    return end


def _check(messages: list[Message], end: int) -> None:
    """Raises RowFault for turns before the answer in which nothing is said, and for results of no call."""
    waiting = 0  # calls that have no result yet
    for number, message in enumerate(messages, start=1):
        role, calls = message["role"], message.get("tool_calls", [])
        if role in (USER, ASSISTANT) and number <= end and not (calls or message["content"].strip()):
            raise RowFault(f"message {number} ({role}) is empty: no content")
        if role == ASSISTANT:
            waiting = len(calls)
        elif role == TOOL:
            if not waiting:
                raise RowFault(f"message {number} ({role}) is the result of no call: no tool_calls before it")
            waiting -= 1
