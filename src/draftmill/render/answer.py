"""An answer in parts → the assistant message that the chat template gets for the next turn.

The message is canonical (``role``, ``content``, ``reasoning_content``, ``tool_calls`` with arguments as objects), as
those of a dataset are; ``Form.fitted`` puts it into the template's own form. What servers do is done here as well:
content is what stands before the first tool call, and Kimi's call ids count through the conversation whatever index the
model wrote. Call ids of the other families are random at servers; here they are counted too, so that a run can be
repeated.
"""

from typing import Any

import msgspec

from draftmill.records import Message
from draftmill.render.families import Body
from draftmill.render.form import Form
from draftmill.render.markers import Markers
from draftmill.render.parts import Call, Kind, Part, Parts

_MESSAGES_ARE_JOINED_BY = "\n"  # harmony's, where an answer has several of one kind


class Answer(msgspec.Struct, frozen=True):
    """The message of an answer. ``lost`` is the text that it has no place for: what stood behind a tool call."""

    message: Message
    lost: str = ""


def message(parts: Parts, markers: Markers, form: Form, history: list[Message]) -> Answer:
    """The message of an answer that follows on ``history``. Calls that cannot be read are in it as they are."""
    padding = form.padding
    joint = _MESSAGES_ARE_JOINED_BY if markers.body is Body.HARMONY else ""
    reasoning = [part.text for part in parts.of(Kind.REASONING)]
    if reasoning:
        before = padding.before_reasoning.removeprefix(padding.in_prompt if parts.opened else "")
        reasoning[0] = reasoning[0].removeprefix(before)
        reasoning[-1] = reasoning[-1].removesuffix(padding.after_reasoning)
    contents, lost = _contents(parts)
    content = joint.join(contents)
    if any(part.closed for part in parts.of(Kind.REASONING)):
        content = content.removeprefix(padding.before_content)
    if parts.calls:
        content = content.removesuffix(padding.before_calls)
    built: Message = {"role": "assistant", "content": content}
    if text := joint.join(reasoning):
        built["reasoning_content"] = text
    if parts.calls:
        first = sum(len(m.get("tool_calls") or ()) for m in history if m.get("role") == "assistant")
        built["tool_calls"] = [_call(call, first + n, markers) for n, call in enumerate(parts.calls)]
    return Answer(built, lost)


def same_call(call: Call, recorded: dict[str, Any]) -> bool:
    """Whether a call does what a recorded (canonical) one did: the same function, with equal arguments as values."""
    function = recorded["function"]
    return call.usable and call.reading.name == function["name"] and equal(_value(call), function["arguments"])


def equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same: 1 and 1.0 are, 1 and true are not, the order of keys does not matter."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _contents(parts: Parts) -> tuple[list[str], str]:
    """The texts of the content, and what stands behind the first call.

    White space before thinking belongs to neither: some models write a line end first.
    """
    contents: list[str] = []
    lost = ""
    called = False
    for n, part in enumerate(parts.parts):
        called |= part.kind is Kind.CALL
        if part.kind is not Kind.CONTENT:
            continue
        if called:
            lost += part.text
        elif part.text.strip() or not _before_thinking(parts.parts[n + 1 :]):
            contents.append(part.text)
    return contents, lost if lost.strip() else ""


def _before_thinking(rest: tuple[Part, ...]) -> bool:
    return bool(rest) and rest[0].kind is Kind.REASONING


def _call(call: Call, index: int, markers: Markers) -> dict[str, Any]:
    name = call.reading.name
    id = f"functions.{name}:{index}" if markers.body is Body.KIMI else f"call_{index}"
    return {"id": id, "type": "function", "function": {"name": name, "arguments": _value(call)}}


def _value(call: Call) -> Any:
    """The arguments as a canonical message has them: their value, or what was written where that is none."""
    if call.reading.fault:
        return call.reading.raw
    return {} if call.reading.value is None else call.reading.value
