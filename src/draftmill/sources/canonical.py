"""The canonical form of messages and tools: two spellings of one conversation give equal values.

- A message holds ``role`` and ``content`` (always a string), and where they apply ``reasoning_content``,
  ``tool_calls``, ``tool_call_id`` and ``name``; absent, null and unknown keys are left out.
- Roles are system (also ``developer``), user, assistant and tool (also the old ``function``), whatever a dataset
  calls them. ``content`` that is null is "", and text parts are joined by a line end, as vLLM does (SGLang: a space).
- ``arguments`` of a tool call is the parsed object: chat templates put it through ``tojson``, and servers parse the
  string before they fill the template. What is no object cannot be served at all.
- Thinking that stands inside the text of an answer is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from draftmill.records import Message, Tool
from draftmill.sources import json_text, thinking
from draftmill.sources.fault import RowFault

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"
ROLES = {
    **dict.fromkeys(("system", "developer"), SYSTEM),
    **dict.fromkeys(("user", "human", "prompter"), USER),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bing", "bard", "model", "ai"), ASSISTANT),
    **dict.fromkeys(("tool", "function", "observation", "tool_response", "function_response", "ipython"), TOOL),
}
_TEXT_PARTS = ("text", "input_text", "output_text")


def messages(raw: object) -> list[Message]:
    """Canonical messages of a list in the OpenAI schema, in its newer or older spellings. Raises RowFault."""
    if not isinstance(raw, list):
        raise RowFault(f"the messages are {json_text.kind(raw)}, not an array")
    return [_message(item, f"message {number}") for number, item in enumerate(raw, start=1)]


def tools(raw: object) -> list[Tool] | None:
    """Canonical tools of an array, or of a string that holds one as JSON; None if there are none. Raises RowFault."""
    items = _decoded(raw, "tools")
    if items is None or items == "":
        return None
    if not isinstance(items, list):
        raise RowFault(f"tools is {json_text.kind(items)}, not an array")
    return [_tool(_decoded(item, f"tool {n}"), f"tool {n}") for n, item in enumerate(items, start=1)] or None


def tool_calls(raw: object, place: str) -> list[dict[str, Any]]:
    """Canonical tool calls of an array, or of a string that holds one or a single call as JSON. Raises RowFault."""
    items = _decoded(raw, f"{place}: tool_calls")
    if isinstance(items, Mapping):
        items = [items]
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise RowFault(f"{place}: tool_calls is {json_text.kind(items)}, not an array")
    return [_call(item, place) for item in items]


def _message(raw: object, place: str) -> Message:
    if not isinstance(raw, Mapping):
        raise RowFault(f"{place} is {json_text.kind(raw)}, not an object")
    message: Message = {"role": _role(raw.get("role"), place)}
    message["content"] = _content(raw.get("content"), place, message["role"])
    if message["role"] == ASSISTANT:
        message["content"] = thinking.without(message["content"])
        reasoning = raw.get("reasoning_content") or raw.get("reasoning")
        if isinstance(reasoning, str):
            message["reasoning_content"] = reasoning
        recorded = raw.get("tool_calls") or raw.get("function_call")
        if recorded and (calls := tool_calls(recorded, place)):
            message["tool_calls"] = calls
    elif message["role"] == TOOL and (id := _call_id(raw)):
        message["tool_call_id"] = id
    if raw.get("name"):
        message["name"] = str(raw["name"])
    return message


def _call_id(raw: Mapping[str, Any]) -> str:
    """Which call a result belongs to; SWE-agent writes a list, of one."""
    several = raw.get("tool_call_ids")
    id = raw.get("tool_call_id") or (several[0] if isinstance(several, list) and several else None)
    return str(id) if id else ""


def _role(raw: object, place: str) -> str:
    role = ROLES.get(raw.strip().lower()) if isinstance(raw, str) else None
    if role is None:
        raise RowFault(f"{place} has no role" if raw is None else f"{place} has the unknown role {raw!r}")
    return role


def _content(raw: object, place: str, role: str) -> str:
    if isinstance(raw, str):
        return raw
    if raw is None:
        return ""
    if isinstance(raw, list) and all(_is_part(part) for part in raw):
        return "\n".join(_part(part, place) for part in raw)
    if role == TOOL and isinstance(raw, dict | list):
        return json_text.written(raw)  # a result that was recorded as data
    raise RowFault(f"{place}: content is {json_text.kind(raw)}, not a text")


def _is_part(item: object) -> bool:
    return isinstance(item, str) or (isinstance(item, dict) and "type" in item)


def _part(part: str | dict[str, Any], place: str) -> str:
    if isinstance(part, str):
        return part
    if part["type"] not in _TEXT_PARTS or not isinstance(part.get("text"), str):
        raise RowFault(f"{place} holds a part of type {part['type']!r}: only text can be rendered")
    return str(part["text"])


def _call(raw: object, place: str) -> dict[str, Any]:
    function = raw.get("function", raw) if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RowFault(f"{place}: a tool call has no function name")
    call = {"id": str(raw["id"])} if raw.get("id") else {}
    arguments = _arguments(function.get("arguments"), f"{place}: arguments of {function['name']!r}")
    return {**call, "type": "function", "function": {"name": function["name"], "arguments": arguments}}


def _arguments(raw: object, place: str) -> dict[str, Any]:
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}
    value = _decoded(raw, place)
    if not isinstance(value, dict):
        raise RowFault(f"{place}: they are {json_text.kind(value)}, not an object")
    return value


def _tool(raw: object, place: str) -> Tool:
    if not isinstance(raw, Mapping):
        raise RowFault(f"{place} is {json_text.kind(raw)}, not an object")
    if (raw.get("type") or "function") != "function" and ("function" in raw or "parameters" not in raw):
        raise RowFault(f"{place} is of type {raw['type']!r}: only functions can be rendered")
    function = raw["function"] if "function" in raw else {k: v for k, v in raw.items() if k != "type"}
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RowFault(f"{place} has no function name")
    return {"type": "function", "function": {k: v for k, v in function.items() if v is not None}}


def _decoded(raw: object, place: str) -> object:
    """Columns hold nested values as JSON strings where their schema would differ from row to row."""
    if not isinstance(raw, str) or not raw.strip():
        return None if isinstance(raw, str) else raw
    try:
        return json_text.value(raw)
    except RowFault as fault:
        raise RowFault(f"{place}: {fault.reason}") from None
