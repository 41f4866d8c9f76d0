import json
from typing import Any

import pytest

from draftmill.sources import formats, prompt, xlam
from draftmill.sources.fault import RowFault
from tests.sources.talk import defined, user

GIVEAWAYS = {
    "name": "live_giveaways_by_type",
    "description": "What is given away now.",
    "parameters": {
        "type": {"description": "Game or loot.", "type": "str", "default": "game"},
        "ids": {"description": "Which.", "type": "List[int]"},
        "near": {"description": "Where.", "type": "Tuple[float, float], optional"},
        "any": {"description": "What.", "type": "Union[str, int]"},
    },
}
GIVEAWAYS_TOOL = defined(
    "live_giveaways_by_type",
    description="What is given away now.",
    parameters={
        "type": "object",
        "properties": {
            "type": {"description": "Game or loot.", "type": "string", "default": "game"},
            "ids": {"description": "Which.", "type": "array", "items": {"type": "integer"}},
            "near": {"description": "Where.", "type": "array"},
            "any": {"description": "What."},
        },
        "required": ["ids", "any"],
    },
)
ROW: dict[str, Any] = {
    "id": 0,
    "query": "What is free?",
    "tools": json.dumps([GIVEAWAYS]),
    "answers": json.dumps([{"name": "live_giveaways_by_type", "arguments": {"ids": [1]}}]),
}


def test_parameters_become_a_schema_and_answers_the_recorded_calls() -> None:
    read = xlam.read(ROW)
    assert read.prompt.messages == [user("What is free?")]
    assert read.prompt.tools == [GIVEAWAYS_TOOL]
    [recorded] = read.later
    assert recorded["tool_calls"] == [
        {"type": "function", "function": {"name": "live_giveaways_by_type", "arguments": {"ids": [1]}}}
    ]


def test_a_schema_that_is_one_stays() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    [tool] = xlam.read({**ROW, "tools": [{"name": "f", "parameters": schema}]}).prompt.tools or []
    assert tool == defined("f", parameters=schema)


@pytest.mark.parametrize(
    ("word", "schema"),
    [
        ("str", {"type": "string"}),
        ("str, optional", {"type": "string"}),
        ("Optional[List[str]]", {"type": "array", "items": {"type": "string"}}),
        ("List[Tuple[int, int]]", {"type": "array", "items": {"type": "array"}}),
        ("Dict[str, int]", {"type": "object"}),
        ("bool, default False", {"type": "boolean"}),
        ("Callable[[float], float]", {}),
        ("", {}),
    ],
)
def test_types_of_python(word: str, schema: dict[str, Any]) -> None:
    tools = [{"name": "f", "parameters": {"a": {"type": word}}}]
    [tool] = xlam.read({**ROW, "tools": tools}).prompt.tools or []
    assert tool["function"]["parameters"]["properties"] == {"a": schema}


def test_rows_are_known_by_their_plain_parameters() -> None:
    assert formats.choose("auto", [ROW] * 3, None, "dataset a")[0] is xlam
    schema = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    row = {"query": "hi", "tools": [schema]}
    assert formats.choose("auto", [row], None, "dataset a")[0] is prompt
    assert prompt.read(row).prompt.tools == [defined("f", parameters=schema["parameters"])]


def test_a_list_of_names_beside_a_text_is_no_tool() -> None:
    assert prompt.read({"query": "hi", "tools": ["python", "bash"]}).prompt.tools is None


def test_torn_tools_do_not_make_the_dataset_another_one() -> None:
    rows = [ROW] * 16 + [{**ROW, "tools": "[not json"}] * 4
    assert formats.choose("auto", rows, None, "dataset a")[0] is xlam
    with pytest.raises(RowFault, match="tools"):
        prompt.read({"query": "hi", "tools": "[not json"})


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({**ROW, "query": " "}, "'query' is empty"),
        ({**ROW, "tools": "[{"}, "tools"),
        ({**ROW, "tools": None}, "no column 'tools'"),
        ({**ROW, "tools": [{"name": "f", "parameters": {"a": "str"}}]}, "parameter 'a' of 'f'"),
        ({**ROW, "tools": [{"name": "f", "parameters": ["a"]}]}, "parameters of 'f'"),
        ({**ROW, "answers": "[{]"}, "'answers'"),
    ],
)
def test_rows_that_are_none(row: dict[str, Any], named: str) -> None:
    with pytest.raises(RowFault, match=named):
        xlam.read(row)
