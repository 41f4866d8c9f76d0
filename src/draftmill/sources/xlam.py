"""xLAM function calling (APIGen): ``query``, ``answers``, ``tools: [{name, description, parameters: {name: {type}}}]``.

The parameters are no JSON Schema: each has Python's word for its type (``str, optional``, ``List[int]``), and one
without a default that is not optional is required. They become a schema, since that is what a server is given.
``answers`` are the recorded calls.
"""

import re
from collections.abc import Mapping
from typing import Any

from draftmill.records import Message, Tool
from draftmill.sources import canonical, columns, prompt
from draftmill.sources.canonical import ASSISTANT, USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded

NAME = "xlam"

_COLUMN = "query"
_TOOLS = "tools"
_CALLS = "answers"
_TYPES = {
    **dict.fromkeys(("str", "string", "char", "datetime", "date", "time"), "string"),
    **dict.fromkeys(("int", "integer", "long"), "integer"),
    **dict.fromkeys(("float", "double", "number", "complex", "decimal"), "number"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("list", "array", "tuple", "set", "sequence", "iterable"), "array"),
    **dict.fromkeys(("dict", "object", "mapping", "defaultdict", "ordereddict"), "object"),
}
_OPTIONAL = re.compile(r",\s*(optional|default\b.*)$|^optional\[(.*)\]$", re.IGNORECASE | re.DOTALL)
_OUTER = re.compile(r"\s*(\w+)\s*(?:\[(.*)\])?\s*$", re.DOTALL)


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like xLAM's, or None."""
    name = column or _COLUMN
    tools = row.get(_TOOLS)
    listed = columns.array(tools)
    torn = listed is None and isinstance(tools, str) and tools.lstrip()[:1] == "["  # told when it is read
    if not isinstance(row.get(name), str) or not (torn or (listed and all(map(_is_plain, listed)))):
        return None
    return f"column {name!r} is a question to {_TOOLS!r}, whose parameters are described one by one"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's question with its tools, and the recorded calls. Raises RowFault."""
    if row.get(_TOOLS) is None:
        raise RowFault(f"no column {_TOOLS!r} with functions")
    messages: list[Message] = [{"role": USER, "content": prompt.text(row, column or _COLUMN)}]
    if row.get(_CALLS) and (calls := canonical.tool_calls(row[_CALLS], f"column {_CALLS!r}")):
        messages.append({"role": ASSISTANT, "content": "", "tool_calls": calls})
    tools = canonical.tools(row[_TOOLS])
    for tool in tools or []:
        _describe(tool)
    return recorded(row, messages, tools)


def _is_plain(tool: object) -> bool:
    """Whether this is a function whose parameters stand without a schema around them."""
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
        return False
    return isinstance(parameters := tool.get("parameters"), Mapping) and not isinstance(parameters.get("type"), str)


def _describe(tool: Tool) -> None:
    """A schema in the place of parameters that have none. Raises RowFault for what is no description."""
    function = tool["function"]
    parameters = function.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise RowFault(f"parameters of {function['name']!r} are no object")
    if isinstance(parameters.get("type"), str):
        return
    properties, required = {}, []
    for name, told in parameters.items():
        if not isinstance(told, Mapping):
            raise RowFault(f"parameter {name!r} of {function['name']!r} is no object")
        word = str(told.get("type") or "")
        properties[name] = {**{k: v for k, v in told.items() if k not in ("type", "required")}, **_schema(word)}
        if told.get("required", not (_OPTIONAL.search(word) or "default" in told)):
            required.append(name)
    function["parameters"] = {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _schema(word: str) -> dict[str, Any]:
    """JSON Schema of a type as Python writes it; nothing for one that it has no word for, since any value fits it."""
    word = _OPTIONAL.sub(lambda found: found[2] or "", word.strip()).strip()
    outer = _OUTER.match(word)
    kind = _TYPES.get(outer[1].lower()) if outer else None
    if outer is None or kind is None:
        return {}
    inner = _schema(outer[2]) if kind == "array" and outer[2] else {}
    return {"type": kind, **({"items": inner} if inner else {})}
