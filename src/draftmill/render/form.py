"""The form in which a chat template wants earlier answers.

Servers hand a template what clients send back: reasoning, content and tool calls of earlier answers. Templates differ
in what they call the reasoning, in whether they take arguments as an object or as its JSON text, and in the white space
that they put around an answer themselves. ``probe.probe`` finds it out by test renders.
"""

import json
from typing import Any, Literal

import msgspec

from draftmill.records import Message


class Padding(msgspec.Struct, frozen=True):
    """The white space that the template itself puts around what an answer consists of.

    An answer that has it was written as the template writes, so it belongs to the frame and not to the message: left
    in, it would stand there twice. ``in_prompt`` is what of ``before_reasoning`` a prompt that opens the thinking has
    already; ``before_thinking`` stands between a prompt that does not and the marker.
    """

    before_reasoning: str = ""
    after_reasoning: str = ""
    before_content: str = ""
    before_calls: str = ""
    in_prompt: str = ""
    before_thinking: str = ""


class Form(msgspec.Struct, frozen=True):
    """What a template wants of an assistant message.

    ``reasoning_key``: where it looks for reasoning, None where it never does. ``needs_reasoning``: it refuses earlier
    answers that have none. ``arguments``: how it takes those of a call, None where it cannot render calls.
    """

    reasoning_key: str | None = None
    needs_reasoning: bool = False
    arguments: Literal["object", "text"] | None = None
    padding: Padding = Padding()

    def fitted(self, messages: list[Message]) -> list[Message]:
        """Canonical messages as the template wants them; the given ones stay as they are."""
        return [self._fitted(message) if message.get("role") == "assistant" else message for message in messages]

    def _fitted(self, message: Message) -> Message:
        fitted = {key: value for key, value in message.items() if key != "reasoning_content"}
        reasoning = message.get("reasoning_content") or ("" if self.needs_reasoning else None)
        if reasoning is not None:
            fitted[self.reasoning_key or "reasoning_content"] = reasoning
        if calls := message.get("tool_calls"):
            fitted["tool_calls"] = [self._call(call) for call in calls]
        return fitted

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        arguments = call["function"]["arguments"]
        if self.arguments != "text" or isinstance(arguments, str):
            return call
        return {**call, "function": {**call["function"], "arguments": json.dumps(arguments, ensure_ascii=False)}}
