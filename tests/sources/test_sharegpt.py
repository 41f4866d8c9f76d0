import json
from typing import Any

import pytest

from draftmill.records import Conversation
from draftmill.sources import sharegpt
from draftmill.sources.fault import RowFault


def turns(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"from": who, "value": text} for who, text in pairs]


def talk(*pairs: tuple[str, str]) -> Conversation:
    return Conversation([{"role": role, "content": text} for role, text in pairs])


@pytest.mark.parametrize(
    ("conversations", "expected"),
    [
        (turns(("human", "a"), ("gpt", "b")), talk(("user", "a"))),
        (turns(("user", "a"), ("chatgpt", "b"), ("user", "c")), talk(("user", "a"), ("assistant", "b"), ("user", "c"))),
        (
            turns(("human", "a"), ("bing", "b"), ("human", "c"), ("gpt", "d")),
            talk(("user", "a"), ("assistant", "b"), ("user", "c")),
        ),
        (turns(("system", "s"), ("human", "a"), ("assistant", "b")), talk(("system", "s"), ("user", "a"))),
        (turns(("gpt", "b"), ("human", "a"), ("gpt", "c")), talk(("assistant", "b"), ("user", "a"))),
        (
            turns(("human", "a"), ("human", "b"), ("gpt", "c"), ("gpt", "d"), ("human", "e")),
            talk(("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d"), ("user", "e")),
        ),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], talk(("user", "a"))),
        ([{"from": "human", "value": "a", "markdown": None}, {"from": "gpt", "value": None}], talk(("user", "a"))),
    ],
)
def test_golden_rows(conversations: list[dict[str, Any]], expected: Conversation) -> None:
    row = {"id": "x", "conversations": conversations}
    assert "list of turns" in str(sharegpt.recognise(row))
    assert sharegpt.read(row).prompt == expected


@pytest.mark.parametrize(
    "value",
    [
        '{"name": "weather", "arguments": {"city": "Oslo"}}',
        '{"name": "weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}',
        "{'name': 'weather', 'arguments': {'city': 'Oslo'}}",
        '[{"name": "weather", "arguments": {"city": "Oslo"}}]',
    ],
)
@pytest.mark.parametrize(
    "roles", [("function_call", "observation"), ("tool_call", "tool_response"), ("Tool_Call", "tool")]
)
def test_spellings_of_calls(value: str, roles: tuple[str, str]) -> None:
    row = {"conversations": turns(("human", "Oslo?"), (roles[0], value), (roles[1], "3"), ("gpt", "3 °C"))}
    asked, called, result = sharegpt.read(row).prompt.messages
    assert called["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Oslo"}}
    assert (asked["role"], result) == ("user", {"role": "tool", "content": "3"})


def test_tool_turns() -> None:
    function = {"name": "weather", "parameters": {"type": "object"}}
    row = {
        "conversations": turns(
            ("human", "Oslo?"),
            ("function_call", '{"name": "weather", "arguments": {"city": "Oslo"}}'),
            ("observation", '{"t": 3}'),
            ("gpt", "3 °C"),
        ),
        "tools": json.dumps([function]),
        "system": "Be brief.",
    }
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    assert sharegpt.read(row).prompt == Conversation(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Oslo?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": '{"t": 3}'},
        ],
        [{"type": "function", "function": function}],
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"conversations": turns(("gpt", "b"))}, "no user or tool message"),
        ({"conversations": turns(("human", "a"), ("narrator", "b"))}, "message 2 has the unknown role 'narrator'"),
        (
            {"conversations": turns(("human", "a"), ("function_call", "{'name'"))},
            "message 2: tool_calls: not valid JSON",
        ),
        ({"conversations": [{"value": "a"}, {"from": "gpt", "value": "b"}]}, "message 1 has no role"),
        ({"conversations": []}, "column 'conversations' is an empty array"),
        ({"conversations": "hi"}, "column 'conversations' is a string, not turns that have from and value"),
        ({"conversations": [["human", "a"]]}, "column 'conversations' is an array of an array first"),
        ({"conversations": turns(("observation", "3"), ("human", "a"))}, "message 1 (tool) is the result of no call"),
        ({"conversations": turns(("human", "a"), ("gpt", ""), ("human", "b"))}, "message 2 (assistant) is empty"),
        ({"prompt": "a"}, "no column 'conversations' with turns"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        sharegpt.read(row)
    assert caught.value.reason.startswith(reason)


def test_columns() -> None:
    row = {"messages": turns(("human", "a")), "chat": turns(("human", "b"))}
    assert sharegpt.read(row).prompt == talk(("user", "a"))
    assert sharegpt.read(row, "chat").prompt == talk(("user", "b"))
    assert sharegpt.recognise({"messages": [{"role": "user", "content": "a"}]}) is None
