import json
from typing import Any

import pytest

from draftmill.records import Conversation
from draftmill.sources import formats, messages
from draftmill.sources.fault import RowFault
from tests.sources.talk import system, user

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
ASK = {"role": "user", "content": "How warm is it in Oslo?"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}],
}
RESULT = {"role": "tool", "content": "3 °C", "tool_call_id": "c1"}
ANSWER = {"role": "assistant", "content": "3 °C."}
CALL_AS_STRING = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}],
}

ULTRACHAT = Conversation([{"role": "user", "content": "a"}, ANSWER, ASK])

GOLDEN: list[tuple[dict[str, Any], Conversation]] = [
    ({"messages": [ASK, ANSWER]}, Conversation([ASK])),
    ({"messages": [ASK, CALL, RESULT, ANSWER], "tools": [TOOL]}, Conversation([ASK, CALL, RESULT], [TOOL])),
    (
        {"messages": [ASK, CALL_AS_STRING, RESULT], "tools": json.dumps([TOOL])},
        Conversation([ASK, CALL, RESULT], [TOOL]),
    ),
    # UltraChat 200k: the prompt is the first message, and only that
    ({"prompt": "a", "prompt_id": "x", "messages": [{**ASK, "content": "a"}, ANSWER, ASK, ANSWER]}, ULTRACHAT),
    # the whole column as one text; null beside calls; a list of parts
    (
        {"messages": json.dumps([ASK, CALL_AS_STRING, {**RESULT, "content": [{"type": "text", "text": "3 °C"}]}])},
        Conversation([ASK, CALL, RESULT]),
    ),
    ({"messages": [ASK, CALL], "functions": [TOOL["function"]]}, Conversation([ASK], [TOOL])),
    ({"messages": [ASK], "tools": [], "functions": None}, Conversation([ASK])),
    ({"prompt": [ASK], "chosen": [ANSWER], "rejected": [ANSWER]}, Conversation([ASK])),
    ({"prompt": ASK["content"], "prompt_id": "x", "messages": [ASK, ANSWER]}, Conversation([ASK])),
    (
        {"messages": [{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}, ASK]},
        Conversation([{"role": "system", "content": "Be brief."}, ASK]),
    ),
    (
        {"messages": [ASK, {**ANSWER, "reasoning_content": "look it up"}, ASK, ANSWER]},
        Conversation([ASK, {**ANSWER, "reasoning_content": "look it up"}, ASK]),
    ),
]


@pytest.mark.parametrize(("row", "conversation"), GOLDEN)
def test_golden_rows(row: dict[str, Any], conversation: Conversation) -> None:
    assert "list of messages" in str(messages.recognise(row))
    assert messages.read(row).prompt == conversation


def test_reading_what_was_read_changes_nothing() -> None:
    for row, conversation in GOLDEN:
        read = messages.read(row)
        again = {"messages": read.prompt.messages + read.later, "tools": json.dumps(read.prompt.tools)}
        assert read.prompt == conversation and messages.read(again) == read


@pytest.mark.parametrize("row", [{}, {"messages": "hi"}, {"messages": []}, {"messages": ["hi"]}, {"prompt": "hi"}])
def test_other_rows(row: dict[str, Any]) -> None:
    assert messages.recognise(row) is None
    with pytest.raises(RowFault, match=r"column '(messages|prompt)'"):
        messages.read(row)


def test_a_column_of_another_name() -> None:
    row = {"dialog": [ASK], "messages": [ANSWER]}
    assert "'dialog'" in str(messages.recognise(row, "dialog"))
    assert messages.read(row, "dialog").prompt == Conversation([ASK])
    with pytest.raises(RowFault, match="no column 'talk'"):
        messages.read(row, "talk")


def test_the_prompt_of_nemotron_stands_in_its_input_column() -> None:
    row = {
        "input": [user("Sort it.")],
        "output": "<think>\nHow?\n</think>\nSorted.",
        "reasoning": "on",
        "system_prompt": "detailed thinking on",
    }
    read = messages.read(row)
    assert read.prompt.messages == [system("detailed thinking on"), user("Sort it.")]
    assert [said["content"].strip() for said in read.later] == ["Sorted."]
    assert formats.choose("auto", [row] * 2, None, "dataset a")[0] is messages
