"""BFCL: ``question: [[{role, content}, …], …]``, one list a turn, and ``function``, schemas in a dialect of their own.

What is not JSON Schema is put right as the benchmark itself does it for chat APIs: ``dict`` is ``object``, ``float`` is
``number``, names with dots get underscores, and the description says what comes back. The first turn is the prompt.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Message, Tool
from draftmill.sources import canonical, columns, json_text, prompt
from draftmill.sources.canonical import USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, asked_in_turn

NAME = "bfcl"

_COLUMN = "question"
_TOOLS = "function"
_TYPES = {
    **dict.fromkeys(("dict", "HashMap", "Hashtable"), "object"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("byte", "short", "long", "Bigint", "int", "Integer"), "integer"),
    **dict.fromkeys(("tuple", "list", "Array", "ArrayList", "Queue", "Stack"), "array"),
    **dict.fromkeys(("any", "Any", "char", "String"), "string"),
    **dict.fromkeys(("bool", "Boolean"), "boolean"),
}


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like BFCL, or None."""
    question, functions = row.get(column or _COLUMN), row.get(_TOOLS)
    schemas = isinstance(functions, dict | list) or (
        isinstance(functions, str) and functions.lstrip()[:1] in ("[", "{")
    )
    if not schemas or not (isinstance(question, str) or columns.array(question)):
        return None
    return f"column {column or _COLUMN!r} is a question to the schemas in {_TOOLS!r}"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's first turn with its functions, and the later turns. Raises RowFault."""
    if _TOOLS not in row:
        raise RowFault(f"no column {_TOOLS!r}: its functions stand elsewhere")
    return asked_in_turn(row, _rounds(row, column or _COLUMN), _tools(row[_TOOLS]))


def _rounds(row: Mapping[str, Any], name: str) -> list[list[Message]]:
    question = columns.array(row.get(name))
    if question is None:
        return [[{"role": USER, "content": prompt.text(row, name)}]]
    if question and all(isinstance(item, dict) for item in question):
        question = [question]  # a single turn without the list around it
    rounds = [canonical.messages(turn) for turn in question if turn != []]  # empty: only the functions changed
    if not rounds:
        raise RowFault(f"column {name!r} holds no message")
    return rounds


def _tools(raw: object) -> list[Tool] | None:
    tools = canonical.tools([raw] if isinstance(raw, dict) else raw)
    for tool in tools or []:
        function = tool["function"]
        function["name"] = function["name"].replace(".", "_")
        if (response := function.pop("response", None)) is not None:
            told = json_text.written(response)
            function["description"] = (
                f"{function.get('description', '')} The response field has the schema {told}".strip()
            )
        if "parameters" in function:
            function["parameters"] = _schema(function["parameters"])
    return tools


def _schema(raw: Any) -> Any:
    """A JSON Schema out of BFCL's; only where types stand, never in names, defaults or choices."""
    if isinstance(raw, list):
        return [_schema(item) for item in raw]
    if not isinstance(raw, dict):
        return raw
    schema = dict(raw)
    if isinstance(kind := schema.get("type"), str):
        schema["type"] = _TYPES.get(kind, kind)
    if isinstance(properties := schema.get("properties"), dict):
        schema["properties"] = {name: _schema(value) for name, value in properties.items()}
    for key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf"):
        if key in schema:
            schema[key] = _schema(schema[key])
    return schema
