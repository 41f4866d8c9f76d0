import json
from typing import Any

import pytest

from draftmill.records import Message, Tool
from draftmill.sources import bfcl
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, defined, system, user

AREA = {
    "name": "triangle.area",
    "description": "The area.",
    "parameters": {
        "type": "dict",
        "properties": {
            "base": {"type": "float", "description": "Its base.", "default": 1.0},
            "type": {"type": "string", "enum": ["dict", "float"], "default": "dict"},
            "sides": {"type": "array", "items": {"type": "float"}},
            "unit": {"type": "any", "optional": True},
        },
        "required": ["base"],
    },
}
AREA_TOOL = defined(
    "triangle_area",
    description="The area.",
    parameters={
        "type": "object",
        "properties": {
            "base": {"type": "number", "description": "Its base.", "default": 1.0},
            "type": {"type": "string", "enum": ["dict", "float"], "default": "dict"},
            "sides": {"type": "array", "items": {"type": "number"}},
            "unit": {"type": "string", "optional": True},
        },
        "required": ["base"],
    },
)

GOLDEN: list[tuple[dict[str, Any], list[Message], list[Tool] | None, list[Message]]] = [
    ({"id": "simple_0", "question": [[user("Area?")]], "function": [AREA]}, [user("Area?")], [AREA_TOOL], []),
    (  # a system prompt, several functions, types of Java
        {
            "id": "java_1",
            "question": [[system("Be exact."), user("Go.")]],
            "function": [
                {"name": "Geo.find", "parameters": {"type": "HashMap", "properties": {"n": {"type": "long"}}}},
                {
                    "name": "b",
                    "parameters": {"type": "dict", "properties": {"c": {"type": "char"}, "l": {"type": "tuple"}}},
                },
            ],
        },
        [system("Be exact."), user("Go.")],
        [
            defined("Geo_find", parameters={"type": "object", "properties": {"n": {"type": "integer"}}}),
            defined(
                "b", parameters={"type": "object", "properties": {"c": {"type": "string"}, "l": {"type": "array"}}}
            ),
        ],
        [],
    ),
    (  # turns, of which one only brings functions
        {"id": "multi_2", "question": [[user("a")], [], [user("b"), user("c")]], "function": [{"name": "f"}]},
        [user("a")],
        [defined("f")],
        [assistant(""), user("b"), user("c")],
    ),
    (  # the first release: one text, one function
        {"question": "Area?", "function": AREA, "human_eval_answer": "…"},
        [user("Area?")],
        [AREA_TOOL],
        [],
    ),
    (  # columns that hold JSON as text; what comes back is said in the description, as for chat APIs
        {
            "id": "x",
            "question": json.dumps([[user("Area?")]]),
            "function": json.dumps([{"name": "f", "description": "Do.", "response": {"type": "dict"}}]),
        },
        [user("Area?")],
        [defined("f", description='Do. The response field has the schema {"type": "dict"}')],
        [],
    ),
    ({"id": "chatable_0", "question": [[user("Hi")]], "function": []}, [user("Hi")], None, []),
]


@pytest.mark.parametrize(("row", "messages", "tools", "later"), GOLDEN)
def test_golden_rows(
    row: dict[str, Any], messages: list[Message], tools: list[Tool] | None, later: list[Message]
) -> None:
    before = json.dumps(row)
    assert "is a question to the schemas in 'function'" in str(bfcl.recognise(row))
    read = bfcl.read(row)
    assert read.prompt.messages == messages
    assert read.prompt.tools == tools
    assert read.later == later
    assert json.dumps(row) == before, "the row itself stays what it was"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"question": [[user("a")]]}, "no column 'function': its functions stand elsewhere"),
        ({"question": [], "function": []}, "column 'question' holds no message"),
        ({"question": [[]], "function": []}, "column 'question' holds no message"),
        ({"question": None, "function": []}, "column 'question' is null, not a text"),
        ({"question": [["a"]], "function": []}, "message 1 is a string, not an object"),
        ({"question": [[user(" ")]], "function": []}, "message 1 (user) is empty"),
        ({"question": [[user("a")]], "function": [{"description": "x"}]}, "tool 1 has no function name"),
        ({"question": [[user("a")]], "function": ["{"]}, "tool 1: the JSON is torn"),
        ({"question": [[user("a")]], "function": 5}, "tools is a number, not an array"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        bfcl.read(row)
    assert caught.value.reason.startswith(reason)


def test_code_beside_a_question_is_not_taken_for_it() -> None:
    assert bfcl.recognise({"question": "What does it do?", "function": "def f(): pass"}) is None
