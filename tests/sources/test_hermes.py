"""Rows in the shape of Hermes function calling v1, and of what others made of it."""

import json
from typing import Any

import pytest

from draftmill.records import Message, Tool
from draftmill.sources import hermes
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, call, defined, system, tool, user

LIGHT = defined("set_light", description="Set a light", parameters={"type": "object", "properties": {}})
HOW = (
    "You are a function calling AI model. You are provided with function signatures within <tools></tools> XML tags. "
    "Don't make assumptions about what values to plug into functions.\n<tools>\n{tools}\n</tools>\n"
    "For each function call return a json object with function name and arguments within <tool_call></tool_call> XML "
    "tags with the following schema:\n<tool_call>\n{'arguments': <args-dict>, 'name': <function-name>}\n</tool_call>\n"
)


def row(*turns: tuple[str, str], **columns: Any) -> dict[str, Any]:
    shape = {"id": "x", "category": "Home", "subcategory": "Lights", "task": "Dim them"}
    return {**shape, "conversations": [{"from": who, "value": text} for who, text in turns], **columns}


GOLDEN: list[tuple[dict[str, Any], list[Message], list[Tool] | None]] = [
    (  # two calls in one turn as Python literals, both results in one turn, the tools in a column and in the prompt
        row(
            ("system", HOW.replace("{tools}", json.dumps([LIGHT]))),
            ("human", "Dim both."),
            (
                "gpt",
                "<tool_call>\n{'arguments': {'room': 'hall', 'on': True}, 'name': 'set_light'}\n</tool_call>\n"
                "<tool_call>\n{'arguments': {'room': \"child's\", 'on': None}, 'name': 'set_light'}\n</tool_call>\n",
            ),
            (
                "tool",
                '<tool_response>\n{"name": "set_light", "content": {"level": 3}}\n</tool_response>\n'
                "<tool_response>\n{'name': 'set_light', 'content': 'off'}\n</tool_response>\n",
            ),
            ("gpt", "Both are dim."),
            tools=json.dumps([LIGHT]),
        ),
        [
            user("Dim both."),
            assistant(
                "",
                call("set_light", {"room": "hall", "on": True}),
                call("set_light", {"room": "child's", "on": None}),
            ),
            tool('{"level": 3}', name="set_light"),
            tool("off", name="set_light"),
        ],
        [LIGHT],
    ),
    (  # tools in the prompt only, with prose of its own around; JSON calls behind text
        row(
            ("system", "Be brief.\n" + HOW.replace("{tools}", json.dumps([LIGHT])) + "Answer in French."),
            ("human", "Dim it."),
            ("gpt", 'Oui.\n<tool_call>\n{"name": "set_light", "arguments": {"on": true}}\n</tool_call>'),
            ("tool", "<tool_response>\nno such light\n</tool_response>"),
        ),
        [
            system("Be brief.\n\nAnswer in French."),
            user("Dim it."),
            assistant("Oui.", call("set_light", {"on": True})),
            tool("no such light"),
        ],
        [LIGHT],
    ),
    (  # no tools: its JSON mode
        row(
            ("system", "You answer in JSON. Here's the json schema you must adhere to:\n<schema>\n{}\n</schema>"),
            ("human", "A cat?"),
            ("gpt", '{"legs": 4}'),
            tools=None,
        ),
        [
            system("You answer in JSON. Here's the json schema you must adhere to:\n<schema>\n{}\n</schema>"),
            user("A cat?"),
        ],
        None,
    ),
    (  # Qwen's way to write the same: one tool a line, results in a user turn, arguments as a string
        {
            "messages": [
                system(
                    "You are Kim.\n\n# Tools\n\nYou may call one or more functions.\n\n<tools>\n"
                    f"{json.dumps(LIGHT)}\n{json.dumps(defined('now'))}\n</tools>\n\nFor each call, return:\n"
                    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
                ),
                user("What time?"),
                assistant('<tool_call>\n{"name": "now", "arguments": "{}"}\n</tool_call>'),
                user("<tool_response>\n12:30\n</tool_response>"),
                assistant("Half past twelve."),
            ]
        },
        [system("You are Kim."), user("What time?"), assistant("", call("now", {})), tool("12:30")],
        [LIGHT, defined("now")],
    ),
    (  # Glaive's calls in ShareGPT turns, after recorded thinking
        row(
            ("human", "Rate?"),
            ("gpt", '<think>\nCall it.\n</think>\n<functioncall> {"name": "rate", "arguments": \'{"of": "CAD"}\'}'),
            ("function_response", '{"rate": 1.2}'),
            ("gpt", "1.2"),
        ),
        [user("Rate?"), assistant("", call("rate", {"of": "CAD"})), tool('{"rate": 1.2}')],
        None,
    ),
    (  # a call that was cut at the end of the answer, and schema calls beside it
        row(("human", "Go."), ("gpt", "<tool_call>\n{'name': 'go', 'arguments': {}}"), ("tool", "gone")),
        [user("Go."), assistant("", call("go", {})), tool("gone")],
        None,
    ),
]


@pytest.mark.parametrize(("row", "messages", "tools"), GOLDEN)
def test_golden_rows(row: dict[str, Any], messages: list[Message], tools: list[Tool] | None) -> None:
    read = hermes.read(row)
    assert read.prompt.messages == messages
    assert read.prompt.tools == tools
    assert bool(hermes.recognise(row)) == ("tool_call" in json.dumps(row) or "functioncall" in json.dumps(row))


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (
            [("human", "a"), ("gpt", "<tool_call>{'name': </tool_call>")],
            "message 2: a tool call in its content: not valid",
        ),
        ([("human", "a"), ("gpt", "<tool_call></tool_call>")], "message 2: a tool call in its content is empty"),
        (
            [("human", "a"), ("gpt", "<tool_call>{'arguments': {}}</tool_call>")],
            "message 2: a tool call has no function",
        ),
        (
            [("human", "a"), ("gpt", "<tool_call>{'name': 'f', 'arguments': [1]}</tool_call>")],
            "message 2: arguments of 'f': they are an array, not an object",
        ),
        (
            [("system", "<tools>[{'name': }]</tools>"), ("human", "a")],
            "message 1: the <tools> in its content: not valid",
        ),
        (
            [("human", "a"), ("gpt", "b"), ("tool", "<tool_response>c</tool_response>")],
            "message 3 (tool) is the result of",
        ),
        ([("human", "a"), ("narrator", "b")], "message 2 has the unknown role 'narrator'"),
    ],
)
def test_faults(turns: list[tuple[str, str]], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        hermes.read(row(*turns))
    assert caught.value.reason.startswith(reason)


def test_a_row_of_another_format() -> None:
    assert hermes.recognise({"prompt": "<tool_call>"}) is None
    with pytest.raises(RowFault, match="no column 'messages'"):
        hermes.read({"text": "<tool_call>"})
