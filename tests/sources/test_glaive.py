"""Rows in the shape of Glaive function calling v2, its own oddities included."""

from typing import Any

import pytest

from draftmill.records import Message, Tool
from draftmill.sources import glaive
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, call, defined, system, tool, user

LISTING = "SYSTEM: You are a helpful assistant with access to the following functions. Use them if required -\n"
RATE = """{
    "name": "get_rate",
    "description": "Get the rate between two currencies",
    "parameters": {
        "type": "object",
        "properties": {"base": {"type": "string"}, "target": {"type": "string"}},
        "required": ["base", "target"]
    }
}
"""
PARAMETERS = {
    "type": "object",
    "properties": {"base": {"type": "string"}, "target": {"type": "string"}},
    "required": ["base", "target"],
}
RATE_TOOL = defined("get_rate", description="Get the rate between two currencies", parameters=PARAMETERS)
HELPFUL = system("You are a helpful assistant.")

GOLDEN: list[tuple[dict[str, str], list[Message], list[Tool] | None, int]] = [
    (  # a call with its arguments in single quotes, a result, an answer, another question
        {
            "system": LISTING + RATE,
            "chat": "USER: 500 USD in CAD?\n\n\n"
            'ASSISTANT: <functioncall> {"name": "get_rate", "arguments": \'{"base": "USD", "target": "CAD"}\'} '
            '<|endoftext|>\n\n\nFUNCTION RESPONSE: {"rate": 1.25}\n\n\n'
            "ASSISTANT: They are 625 CAD. <|endoftext|>\n\n\nUSER: Thanks!\n\n\n"
            "ASSISTANT: You're welcome! <|endoftext|>\n\n\n",
        },
        [
            HELPFUL,
            user("500 USD in CAD?"),
            assistant("", call("get_rate", {"base": "USD", "target": "CAD"})),
            tool('{"rate": 1.25}'),
            assistant("They are 625 CAD."),
            user("Thanks!"),
        ],
        [RATE_TOOL],
        1,
    ),
    (  # no functions at all
        {
            "system": "SYSTEM: You are a helpful assistant, with no access to external functions.\n\n",
            "chat": "USER: A haiku?\n\nWith fog.\n\n\nASSISTANT: Fog comes\n\non feet. <|endoftext|>\n\n\n",
        },
        [
            system("You are a helpful assistant, with no access to external functions."),
            user("A haiku?\n\nWith fog."),
        ],
        None,
        1,
    ),
    (  # several functions without a separator, and a raw line end inside a string
        {
            "system": LISTING + '{"name": "a", "description": "One\ntwo"}{"name": "b", "parameters": {}}',
            "chat": "USER: Hi\n\n\nASSISTANT: I can't do that. <|endoftext|>",
        },
        [HELPFUL, user("Hi")],
        [defined("a", description="One\ntwo"), defined("b", parameters={})],
        1,
    ),
    (  # an apostrophe inside the single quotes, text before the call, a result that is no JSON
        {
            "system": LISTING + '{"name": "note"}',
            "chat": "USER: Note this.\n\n\nASSISTANT: Sure.\n<functioncall> "
            '{"name": "note", "arguments": \'{"text": "I\'m late", "mood": "it\\\'s fine"}\'} <|endoftext|>\n\n\n'
            "FUNCTION RESPONSE: saved\nas 7\n\n\nASSISTANT: Done. <|endoftext|>",
        },
        [
            HELPFUL,
            user("Note this."),
            assistant("Sure.", call("note", {"text": "I'm late", "mood": "it's fine"})),
            tool("saved\nas 7"),
        ],
        [defined("note")],
        1,
    ),
    (  # arguments that are an object, none at all, and the two calls in one turn
        {
            "system": LISTING + '{"name": "now"}\n\n{"name": "add"}',
            "chat": 'USER: Both.\n\n\nASSISTANT: <functioncall> {"name": "now"} <functioncall> '
            '{"name": "add", "arguments": {"a": [1, 2]}} <|endoftext|>\n\n\nFUNCTION RESPONSE: {"t": 1}\n\n\n'
            'FUNCTION RESPONSE: {"sum": 3}\n\n\n',
        },
        [
            HELPFUL,
            user("Both."),
            assistant("", call("now", {}), call("add", {"a": [1, 2]})),
            tool('{"t": 1}'),
            tool('{"sum": 3}'),
        ],
        [defined("now"), defined("add")],
        0,
    ),
    (  # names of turns inside a paragraph are what somebody said; blank lines without end are nothing
        {"chat": "\n\n USER: Who says\nASSISTANT: hi?" + "\n" * 9999 + "ASSISTANT: You. <|endoftext|>\n \n  USER: Me?"},
        [user("Who says\nASSISTANT: hi?"), assistant("You."), user("Me?")],
        None,
        0,
    ),
    (  # no system prompt; the assistant speaks first
        {"chat": "ASSISTANT: Hello! <|endoftext|>\n\n\nUSER: Hi."},
        [assistant("Hello!"), user("Hi.")],
        None,
        0,
    ),
]


@pytest.mark.parametrize(("row", "messages", "tools", "later"), GOLDEN)
def test_golden_rows(row: dict[str, str], messages: list[Message], tools: list[Tool] | None, later: int) -> None:
    read = glaive.read(row)
    assert glaive.recognise(row) == "column 'chat' is a text with USER: and ASSISTANT:"
    assert read.prompt.messages == messages
    assert read.prompt.tools == tools
    assert len(read.later) == later


CHAT = "USER: Hi\n\n\nASSISTANT: "


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"chat": ["USER: a"]}, "column 'chat' is an array, not a text"),
        ({"system": "s"}, "no column 'chat'"),
        ({"chat": "Hello"}, "column 'chat' does not begin with USER: or ASSISTANT:"),
        ({"chat": "USER: \n\n\nASSISTANT: a"}, "message 1 (user) is empty"),
        ({"chat": CHAT + "a\n\n\nFUNCTION RESPONSE: {}"}, "message 3 (tool) is the result of no call"),
        (
            {"chat": CHAT + '<functioncall> {"name": "f", "arguments": \'{"a": \'}'},
            "message 2: a tool call in its content:",
        ),
        ({"chat": CHAT + "<functioncall> "}, "message 2: a tool call in its content is empty"),
        ({"chat": CHAT + "<functioncall> {}"}, "message 2: a tool call has no function name"),
        ({"chat": CHAT + "a", "system": 5}, "column 'system' is a number, not a text"),
        (
            {"chat": CHAT + "a", "system": LISTING + '{"name": "f", '},
            "column 'system': its functions: the JSON is torn",
        ),
        ({"chat": CHAT + "a", "system": LISTING + '{"title": "f"}'}, "column 'system': its functions: tool 1 has no"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        glaive.read(row)
    assert caught.value.reason.startswith(reason)
