"""Drift: does an answer, read as a message and rendered through the chat template again, give back its ids?

Data that is kept as text and rendered for training has the ids of the rendering, not those that the model generated.
Where they differ the drafter learns what its target did not say. The reasons are told apart, the first difference is
shown; a turn's later prompts differ from what was generated in the same way, since servers render them so.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from draftmill.errors import RenderError
from draftmill.records import Conversation, Message
from draftmill.render.dialect import Dialect
from draftmill.render.families import Body, Role
from draftmill.render.parts import Kind, Parts
from draftmill.render.tokenizer import Tokenizer

_SHOWN = 8  # ids from the first difference on: enough to see what happened


class Reason(StrEnum):
    """Why the ids differ; NONE where they do not."""

    NONE = "none"
    REFUSED = "refused by the template"
    REASONING = "reasoning dropped"
    PROMPT = "prompt rendered otherwise"
    TOKENISATION = "tokenisation"
    WHITE_SPACE = "white space"
    CALLS = "tool-call formatting"
    END = "end of the answer"
    TEXT = "text"


class Unjudged(StrEnum):
    """Why it cannot be said of a recorded answer which ids it had."""

    CALLS = "tool calls"
    CHANNELS = "channels"
    THINKING = "thinking not recorded"
    NO_QUESTION = "no question"
    PROMPT = "prompt refused"


class Drift(msgspec.Struct, frozen=True):
    """What came of one answer. ``position`` is the index of its first id that differs, negative where that stands in
    the prompt; ``generated`` and ``rendered`` are the texts from there, a few ids long."""

    reason: Reason
    position: int | None = None
    generated: str = ""
    rendered: str = ""


def drift(
    ids: Sequence[int], prompt_ids: list[int], conversation: Conversation, dialect: Dialect, tokenizer: Tokenizer
) -> Drift:
    """The drift of the answer ``ids`` to a prompt, which was rendered from this canonical conversation.

    An answer that a limit cut has none where the rendering begins with it. An end marker that the template leaves to
    the next turn is none either.
    """
    parts = dialect.parts(ids, prompt_ids, conversation.tools)
    message = dialect.answer(parts, conversation.messages).message
    try:
        text = dialect.finished(Conversation([*conversation.messages, message], conversation.tools))
    except RenderError as error:
        return Drift(Reason.REFUSED, rendered=error.message)
    (again,) = tokenizer.encode([text])
    whole = [*prompt_ids, *ids]
    first = next((i for i, (a, b) in enumerate(zip(whole, again, strict=False)) if a != b), min(len(whole), len(again)))
    position = first - len(prompt_ids)
    if first == len(whole) or (first == len(again) and _is_last_end(parts, position)):
        return Drift(Reason.NONE)
    reason = _reason(list(ids), position, parts, _Texts(conversation, message, text), dialect, tokenizer)
    shown = (tokenizer.decode(side[first : first + _SHOWN]) for side in (whole, again))
    return Drift(reason, position, *shown)


def as_generated(
    message: Message, prompt_ids: list[int], dialect: Dialect, tokenizer: Tokenizer
) -> list[int] | Unjudged:
    """The ids that a recorded answer had if its model wrote just this text, as its tokenizer cuts text, and ended.

    White space that the template itself puts around reasoning belongs to that, whether it was recorded or not.
    """
    markers, padding = dialect.markers, dialect.form.padding
    if message.get("tool_calls"):
        return Unjudged.CALLS
    if markers.body is Body.HARMONY:
        return Unjudged.CHANNELS
    opened = markers.opened(prompt_ids)
    reasoning, text = message.get("reasoning_content") or "", message.get("content") or ""
    if opened and not reasoning:
        return Unjudged.THINKING
    if reasoning and markers.thinks:
        texts = {role: markers.texts[id] for id, role in markers.roles.items()}
        before = padding.before_reasoning.removeprefix(padding.in_prompt if opened else "")
        reasoning = _with_end(_with_start(reasoning, before), padding.after_reasoning)
        text = f"{reasoning}{texts[Role.THINK_CLOSE]}{_with_start(text, padding.before_content)}"
        text = text if opened else f"{padding.before_thinking}{texts[Role.THINK_OPEN]}{text}"
    (ids,) = tokenizer.encode([text])
    return [*ids, *dialect.end]


def _with_start(text: str, start: str) -> str:
    return text if text.startswith(start) else start + text


def _with_end(text: str, end: str) -> str:
    return text if text.endswith(end) else text + end


def _is_last_end(parts: Parts, position: int) -> bool:
    last = parts.parts[-1] if parts.parts else None
    return last is not None and last.kind is Kind.END and last.start == position


class _Texts(NamedTuple):
    """A conversation, the message of its answer, and the text that both are rendered to."""

    conversation: Conversation
    message: Message
    text: str


def _reason(
    ids: list[int], position: int, parts: Parts, texts: _Texts, dialect: Dialect, tokenizer: Tokenizer
) -> Reason:
    """Why an answer comes out otherwise from ``position`` on."""
    if _is_dropped(texts, dialect):
        return Reason.REASONING
    prompt = dialect.text(texts.conversation)
    if not texts.text.startswith(prompt):
        thought = any(m.get("reasoning_content") for m in texts.conversation.messages)
        return Reason.REASONING if thought else Reason.PROMPT
    part = next((p for p in parts.parts if p.start <= position < p.end), None)
    if part is not None and part.kind in (Kind.END, Kind.AFTER):
        return Reason.END
    stop = next((p.start for p in parts.of(Kind.END)), len(ids))
    wrote, cut = tokenizer.decode(ids[:stop]), stop == len(ids)
    reads = texts.text.removeprefix(prompt)
    ends = [tokenizer.decode([id]) for id in dialect.markers.turn_ends | dialect.markers.stops]
    if reads.startswith(wrote) and (cut or reads == wrote or reads[len(wrote) :].startswith(tuple(ends))):
        return Reason.TOKENISATION
    if parts.calls and part is not None and part.kind in (Kind.CALL, Kind.FRAME):
        return Reason.CALLS
    found = [at for at in map(reads.find, ends) if at >= 0]
    words, again = "".join(wrote.split()), "".join(reads[: min(found, default=len(reads))].split())
    return Reason.WHITE_SPACE if again == words or (cut and again.startswith(words)) else Reason.TEXT


def _is_dropped(texts: _Texts, dialect: Dialect) -> bool:
    """Whether the answer's reasoning does not come out: another one would have rendered the same."""
    if not texts.message.get("reasoning_content"):
        return False
    other = {**texts.message, "reasoning_content": texts.message["reasoning_content"] + "zqx"}
    try:
        conversation = Conversation([*texts.conversation.messages, other], texts.conversation.tools)
        return dialect.finished(conversation) == texts.text
    except RenderError:
        return False
