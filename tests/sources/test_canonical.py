import json
from typing import Any

import pytest

from draftmill.sources import canonical
from draftmill.sources.fault import RowFault

WEATHER = {"name": "weather", "description": "of a place", "parameters": {"type": "object", "properties": {}}}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
U = {"role": "user", "content": "hi"}


def message(**fields: Any) -> dict[str, Any]:
    return canonical.messages([fields])[0]


@pytest.mark.parametrize(
    ("spelling", "canonical_form"),
    [
        ({"role": "user", "content": "hi", "name": None, "tool_calls": None, "weight": 1, "id": "x"}, U),
        ({"content": "hi", "role": "Human "}, U),
        ({"role": "user", "content": [{"type": "text", "text": "hi"}]}, U),
        ({"role": "user", "content": ["a", {"type": "input_text", "text": "b"}]}, {"role": "user", "content": "a\nb"}),
        ({"role": "user", "content": "hi", "name": "kim"}, {**U, "name": "kim"}),
        ({"role": "developer", "content": "be brief"}, {"role": "system", "content": "be brief"}),
        ({"role": "system", "content": None}, {"role": "system", "content": ""}),
        (
            {"role": "assistant", "content": "4", "reasoning_content": "2+2", "refusal": None},
            {"role": "assistant", "content": "4", "reasoning_content": "2+2"},
        ),
        (
            {"role": "assistant", "content": "4", "reasoning": "2+2", "tool_calls": []},
            {"role": "assistant", "content": "4", "reasoning_content": "2+2"},
        ),
        (
            {"role": "function", "name": "weather", "content": '{"t": 3}'},
            {"role": "tool", "content": '{"t": 3}', "name": "weather"},
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": {"t": 3, "sky": "grå"}},
            {"role": "tool", "content": '{"t": 3, "sky": "grå"}', "tool_call_id": "c1"},
        ),
    ],
)
def test_message(spelling: dict[str, Any], canonical_form: dict[str, Any]) -> None:
    assert canonical.messages([spelling]) == [canonical_form]
    assert canonical.messages([canonical_form]) == [canonical_form]


@pytest.mark.parametrize(
    "fields",
    [
        {"content": None, "tool_calls": [CALL]},
        {"tool_calls": [CALL], "function_call": None},
        {"content": "", "tool_calls": [{"function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]},
        {"content": [], "tool_calls": [{"id": None, "index": 0, **CALL}]},
        {"tool_calls": [{"name": "weather", "arguments": {"city": "Oslo"}}]},
        {"tool_calls": json.dumps([CALL])},
        {"content": None, "function_call": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
    ],
)
def test_spellings_of_a_tool_call(fields: dict[str, Any]) -> None:
    assert message(role="assistant", **fields) == {"role": "assistant", "content": "", "tool_calls": [CALL]}


@pytest.mark.parametrize(
    ("recorded", "kept"),
    [
        ('{"b": 1, "a": null}', {"b": 1, "a": None}),
        ({"a": None}, {"a": None}),
        (None, {}),
        ("", {}),
        (" ", {}),
        ("{}", {}),
    ],
)
def test_arguments(recorded: object, kept: object) -> None:
    call = {"id": "c1", "function": {"name": "f", "arguments": recorded}}
    found = message(role="assistant", tool_calls=[call])["tool_calls"]
    assert found == [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": kept}}]


@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        ('{"city": ', "the JSON is torn"),
        ("city=Oslo", "not valid JSON at column 1"),
        ("[1]", "they are an array, not an object"),
        ([1], "they are an array, not an object"),
        (5, "they are a number, not an object"),
        ("null", "they are null, not an object"),
        ('{"a": NaN}', "NaN at column 7 is not JSON"),
        ('{"a": "\\ud800"}', "lone surrogate"),
    ],
)
def test_arguments_that_no_server_would_take(recorded: object, reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        message(role="assistant", tool_calls=[{"id": "c1", "function": {"name": "f", "arguments": recorded}}])
    assert caught.value.reason.startswith(f"message 1: arguments of 'f': {reason}")


@pytest.mark.parametrize("ids", [{"tool_call_id": "c1"}, {"tool_call_ids": ["c1"]}, {"tool_call_ids": ["c1", "c2"]}])
def test_spellings_of_a_calls_id(ids: dict[str, Any]) -> None:
    assert message(role="tool", content="3", **ids) == {"role": "tool", "content": "3", "tool_call_id": "c1"}
    assert "tool_call_id" not in message(role="tool", content="3", tool_call_ids=[])


def test_recorded_thinking_is_left_out_of_an_answer() -> None:
    assert message(role="assistant", content="<think>2+2</think>\n\n4")["content"] == "4"
    assert message(role="user", content="<think>2+2</think>\n\n4")["content"] == "<think>2+2</think>\n\n4"


@pytest.mark.parametrize(
    "raw",
    [
        [{"type": "function", "function": WEATHER}],
        [{"type": "function", "function": {**WEATHER, "strict": None}, "x": 1}],
        [WEATHER],
        [{"type": "function", **WEATHER}],
        [{"type": None, "function": WEATHER}],
        [json.dumps(WEATHER)],
        json.dumps([WEATHER]),
    ],
)
def test_spellings_of_tools(raw: object) -> None:
    assert canonical.tools(raw) == [{"type": "function", "function": WEATHER}]


@pytest.mark.parametrize("raw", [None, "", " ", "[]", "null", []])
def test_no_tools(raw: object) -> None:
    assert canonical.tools(raw) is None


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("hi", "the messages are a string, not an array"),
        ([U, "hi"], "message 2 is a string, not an object"),
        ([{"content": "hi"}], "message 1 has no role"),
        ([U, {"role": "narrator", "content": "hi"}], "message 2 has the unknown role 'narrator'"),
        ([{"role": 3, "content": "hi"}], "message 1 has the unknown role 3"),
        ([{"role": "user", "content": 5}], "message 1: content is a number, not a text"),
        ([{"role": "user", "content": {"a": 1}}], "message 1: content is an object, not a text"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            "message 1 holds a part of type 'image_url': only text can be rendered",
        ),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "message 1: a tool call has no function name"),
        ([{"role": "assistant", "tool_calls": "[{"}], "message 1: tool_calls: the JSON is torn: it ends at column 3"),
        ([{"role": "assistant", "tool_calls": 7}], "message 1: tool_calls is a number, not an array"),
    ],
)
def test_message_faults(raw: object, reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        canonical.messages(raw)
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("{'name': 'f'}", "tools: not valid JSON at column 2"),
        ({"name": "f"}, "tools is an object, not an array"),
        ([WEATHER, 5], "tool 2 is a number, not an object"),
        ([{"type": "function", "function": {}}], "tool 1 has no function name"),
        ([{"type": "code_interpreter"}], "tool 1 is of type 'code_interpreter': only functions can be rendered"),
    ],
)
def test_tool_faults(raw: object, reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        canonical.tools(raw)
    assert caught.value.reason.startswith(reason)
