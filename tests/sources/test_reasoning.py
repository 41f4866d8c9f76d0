"""Rows in the shape of OpenThoughts, OpenCodeReasoning, OpenR1 and other sets with recorded thinking."""

from typing import Any

import pytest

from draftmill.records import Message
from draftmill.sources import reasoning
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, system, user

OPENTHOUGHTS = (
    "Your role as an assistant involves thinking. Structure your response into Thought and Solution: "
    "<|begin_of_thought|> {thought} <|end_of_thought|> <|begin_of_solution|> {solution} <|end_of_solution|>"
)
THOUGHT = "<|begin_of_thought|>\n\nHm.\n\n<|end_of_thought|>\n\n<|begin_of_solution|>\n\n4\n\n<|end_of_solution|>"


def turns(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"from": who, "value": text} for who, text in pairs]


@pytest.mark.parametrize(
    ("row", "prompt", "later"),
    [
        (
            {"system": OPENTHOUGHTS, "conversations": turns(("user", "2+2?"), ("assistant", THOUGHT))},
            [user("2+2?")],
            [assistant("4")],
        ),
        (  # thinking inside the history, and a system prompt of another kind
            {
                "system": "Be brief.",
                "conversations": turns(
                    ("human", "2+2?"), ("gpt", THOUGHT), ("human", "+1?"), ("gpt", "<think>a</think>5")
                ),
            },
            [system("Be brief."), user("2+2?"), assistant("4"), user("+1?")],
            [assistant("5")],
        ),
        (  # OpenCodeReasoning
            {
                "id": "1",
                "input": "Add.",
                "output": "<think>\nOkay.\n</think>\n```python\n```",
                "solution": "```python\n```",
            },
            [user("Add.")],
            [assistant("```python\n```")],
        ),
        (  # OpenR1: messages beside the columns
            {
                "problem": "2+2?",
                "generations": ["<think>…"],
                "messages": [system(OPENTHOUGHTS), user("2+2?"), assistant("<think>\nHm.\n</think>\n\n4")],
            },
            [user("2+2?")],
            [assistant("4")],
        ),
        (  # Alpaca's columns; the opening mark stood in the prompt of its time
            {"instruction": "Add.", "input": "2 2", "output": "Hm.\n</think>\n\n4"},
            [user("Add.\n\n2 2")],
            [assistant("4")],
        ),
        (  # thinking that never ended leaves no answer, which matters only in a history
            {"conversations": turns(("user", "2+2?"), ("assistant", "<think>\nHm. Hm."))},
            [user("2+2?")],
            [assistant("")],
        ),
    ],
)
def test_golden_rows(row: dict[str, Any], prompt: list[Message], later: list[Message]) -> None:
    assert "begins with recorded thinking" in str(reasoning.recognise(row))
    read = reasoning.read(row)
    assert read.prompt.messages == prompt
    assert read.later == later


def test_rows_without_thinking_are_read_and_not_recognised() -> None:
    for row in ({"question": "2+2?", "answer": "4"}, {"messages": [user("2+2?"), assistant("4")]}):
        assert reasoning.recognise(row) is None
        assert reasoning.read(row).prompt.messages == [user("2+2?")]
    assert reasoning.recognise({"output": "<think>a</think>b"}) is None


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            {"input": "-", "output": "<think>a</think>b"},
            "column 'input' holds '-': the text itself is not in this dataset",
        ),
        ({"input": " ", "output": "<think>a</think>b"}, "column 'input' is empty"),
        ({"output": "<think>a</think>b"}, "no text in column prompt, instruction"),
        (
            {"conversations": turns(("user", "a"), ("assistant", "<think>b"), ("user", "c"))},
            "message 2 (assistant) is empty",
        ),
        ({"conversations": turns(("user", ""), ("assistant", THOUGHT))}, "message 1 (user) is empty"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        reasoning.read(row)
    assert caught.value.reason.startswith(reason)
