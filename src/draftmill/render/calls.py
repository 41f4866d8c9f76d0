"""The text of a tool call → name and arguments, for each way in which models write calls.

What is wrong with a call is said in its ``fault``; nothing is mended. Where values are written without quotes (GLM,
MiniMax, Qwen3-Coder) the tool's own schema says which of them are texts; a value that it says nothing of is JSON if it
can be read so, else a text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from draftmill.records import Tool
from draftmill.render.families import Body

Schemas = Mapping[str, Mapping[str, Any]]  # function → parameter → JSON schema


class Reading(msgspec.Struct, frozen=True):
    """One call as it was written. ``raw`` are the arguments' own characters; ``value`` is None where there is a fault.

    ``value`` is what ``raw`` says: an object as a rule; whatever else a model wrote stays what it is.
    """

    name: str
    raw: str
    value: Any = None
    fault: str = ""
    id: str = ""


def schemas(tools: Sequence[Tool] | None) -> Schemas:
    """The parameters' schemas of each function; what is malformed is passed over."""
    found: dict[str, Mapping[str, Any]] = {}
    for tool in tools or ():
        function = tool.get("function")
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            continue
        parameters = function.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
        found[function["name"]] = properties if isinstance(properties, Mapping) else {}
    return found


def read(body: Body, head: str, tail: str | None, known: Schemas) -> list[Reading]:
    """The calls in one call's text, at least one. ``tail`` is what stands behind the separator, None without one."""
    return _READERS[body](head, tail, known) or [Reading("", head, fault="the call is empty")]


def looks_like_calls(text: str) -> bool:
    """Whether a whole answer is what Llama 3 writes as a call: an object with name and parameters, or its beginning."""
    return re.match(r'\s*\{\s*"name"\s*:\s*"[^"]*"\s*(?:,\s*"(?:parameters|arguments)"|,?\s*$)', text) is not None


class _Named(msgspec.Struct):
    """The JSON of a call; the arguments are kept as they were written."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


_calls = msgspec.json.Decoder(_Named | list[_Named])


def _json(head: str, tail: str | None, known: Schemas) -> list[Reading]:
    text = head if tail is None else head + tail
    if not text.strip():
        return []
    try:
        decoded = _calls.decode(text)
    except (ValueError, RecursionError) as error:
        return [_unread_json(text, error)]
    return [_reading(call) for call in (decoded if isinstance(decoded, list) else [decoded])]


def _reading(call: _Named) -> Reading:
    written = bytes(call.arguments) or bytes(call.parameters)
    return _with_json(call.name, written.decode()) if written else Reading(call.name, "", {})


def _unread_json(text: str, error: Exception) -> Reading:
    """A call that is no JSON: what can be seen of its name and arguments, and why it cannot be read."""
    name = re.search(r'"name"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
    arguments = re.search(r'"(?:arguments|parameters)"\s*:\s*', text)
    raw = text[arguments.end() :] if name and arguments else text
    return Reading(name[1] if name else "", raw, fault=f"the call is not JSON: {_first_line(error)}")


def _with_json(name: str, raw: str, id: str = "") -> Reading:
    """A call whose arguments are one JSON text; a string that holds an object counts as that object."""
    if not raw.strip():
        return Reading(name, raw, fault="the call has no arguments", id=id)
    try:
        value = msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:
        return Reading(name, raw, fault=f"the arguments are not JSON: {_first_line(error)}", id=id)
    if isinstance(value, str):
        try:
            inner = msgspec.json.decode(value)
        except (ValueError, RecursionError):
            inner = None
        value = inner if isinstance(inner, dict) else value
    return Reading(name, raw, value, id=id)


def _kimi(head: str, tail: str | None, known: Schemas) -> list[Reading]:
    id = head.strip()
    match = re.fullmatch(r"(?:functions\.)?(.+):\d+", id, re.DOTALL)
    if tail is None:
        return [Reading(match[1] if match else "", head if not match else "", fault="the call has no arguments", id=id)]
    if match is None:
        return [Reading("", tail, fault=f"the call id {id!r} names no function", id=id)]
    return [_with_json(match[1], tail, id)]


def _deepseek(head: str, tail: str | None, known: Schemas) -> list[Reading]:
    """R1 and V3 write ``function``, separator, name and a fenced block; V3.1 name, separator, arguments."""
    if tail is None:
        return [Reading(head.strip(), "", fault="the call has no arguments")]
    fenced = re.match(r"(.*?)\n```(?:json)?\n?(.*?)(?:\n?```\s*)?\Z", tail, re.DOTALL)
    if head.strip() == "function" and fenced:
        return [_with_json(fenced[1].strip(), fenced[2])]
    return [_with_json(head.strip(), tail)]


def _keys(head: str, tail: str | None, known: Schemas) -> list[Reading]:
    name, key, rest = head.partition("<arg_key>")
    if not head.strip():
        return []
    pair = r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>"
    return [_pairs(name.strip(), key + rest, pair, known)]


def _invoke(head: str, tail: str | None, known: Schemas) -> list[Reading]:
    blocks = r'<invoke name="?([^">]*)"?>(.*?)(</invoke>|(?=<invoke )|\Z)'
    return _blocks(head, blocks, r'<parameter name="?([^">]*)"?>(.*?)</parameter>', known)


def _function(head: str, tail: str | None, known: Schemas) -> list[Reading]:
    blocks = r"<function=([^>]*)>(.*?)(</function>|(?=<function=)|\Z)"
    return _blocks(head, blocks, r"<parameter=([^>]*)>\n?(.*?)\n?</parameter>", known)


def _blocks(text: str, block: str, pair: str, known: Schemas) -> list[Reading]:
    """All blocks of a text, each a call; what stands between them is a fault of its own."""
    found = []
    last = 0
    for match in re.finditer(block, text, re.DOTALL):
        found += _left_over(text[last : match.start()])
        last = match.end()
        reading = _pairs(match[1], match[2], pair, known)
        if not match[3] and not reading.fault:
            reading = Reading(reading.name, reading.raw, fault="the call does not end")
        found.append(reading)
    return found + _left_over(text[last:])


def _left_over(text: str) -> list[Reading]:
    return [Reading("", text, fault="this is no call")] if text.strip() else []


def _pairs(name: str, raw: str, pair: str, known: Schemas) -> Reading:
    """A call whose arguments are keys and values in turn."""
    value: dict[str, Any] = {}
    last = 0
    for match in re.finditer(pair, raw, re.DOTALL):
        if raw[last : match.start()].strip():
            break
        value[match[1]] = _typed(match[2], known.get(name, {}).get(match[1]))
        last = match.end()
    if raw[last:].strip():
        return Reading(name, raw, fault=f"the arguments cannot be read from {raw[last:].strip()[:40]!r} on")
    if not name:
        return Reading(name, raw, fault="the call names no function")
    return Reading(name, raw, value)


def _typed(text: str, schema: object) -> Any:
    types = _types(schema)
    if "string" in types and not ("null" in types and text.strip() == "null"):
        return text
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text


def _types(schema: object) -> set[str]:
    """The JSON types that a schema allows by name; of none where it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    own = schema.get("type")
    types = {t for t in (own if isinstance(own, list) else [own]) if isinstance(t, str)}
    for key in ("anyOf", "oneOf"):
        for choice in schema.get(key) or ():
            types |= _types(choice)
    return types


def _python_tag(head: str, tail: str | None, known: Schemas) -> list[Reading]:
    """One JSON object after the other, with ``;`` between them where there are several."""
    found = []
    for text in _objects(head if tail is None else head + tail):
        found += _json(text, None, known)
    return found


def _objects(text: str) -> list[str]:
    """A text cut at each ``;`` between two JSON objects; the rest of a text that is no JSON stays one piece."""
    import json  # the only decoder here that says where a value ends

    pieces, rest = [], text.strip()
    while rest:
        try:
            _, end = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError):
            end = len(rest)
        pieces.append(rest[:end])
        rest = rest[end:].strip().removeprefix(";").strip()
    return pieces


def _harmony(head: str, tail: str | None, known: Schemas) -> list[Reading]:
    return [_with_json(head.removeprefix("functions."), tail or "")]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


_READERS: dict[Body, Callable[[str, str | None, Schemas], list[Reading]]] = {
    Body.JSON: _json,
    Body.KIMI: _kimi,
    Body.DEEPSEEK: _deepseek,
    Body.KEYS: _keys,
    Body.INVOKE: _invoke,
    Body.FUNCTION: _function,
    Body.PYTHON_TAG: _python_tag,
    Body.HARMONY: _harmony,
}
