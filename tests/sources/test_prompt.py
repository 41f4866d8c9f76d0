from typing import Any

import pytest

from draftmill.sources import prompt
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, user


@pytest.mark.parametrize(
    ("row", "content"),
    [
        ({"prompt": "def f():\n", "test": "x"}, "def f():\n"),
        ({"instruction": "Sort.", "category": "code"}, "Sort."),
        ({"question": "Why?", "answer": "so"}, "Why?"),
        ({"input": "Write a parser.", "output": "…", "domain": "code"}, "Write a parser."),
        ({"text": "Tell me.", "prompt": "This first."}, "This first."),
        ({"prompt": 5, "text": "Tell me."}, "Tell me."),
    ],
)
def test_golden_rows(row: dict[str, Any], content: str) -> None:
    assert "is a text" in str(prompt.recognise(row))
    assert prompt.read(row).prompt.messages == [{"role": "user", "content": content}]


def test_a_system_column() -> None:
    read = prompt.read({"system": "Be brief.", "question": "Why?"})
    assert [m["role"] for m in read.prompt.messages] == ["system", "user"]


def test_a_column_of_another_name() -> None:
    row = {"prompt": "a", "ask": "b", "n": 5}
    assert prompt.read(row, "ask").prompt.messages == [{"role": "user", "content": "b"}]
    assert prompt.recognise(row, "none") is None


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        ({"title": "a"}, None, "no text in column prompt, instruction, question"),
        ({"prompt": "  "}, None, "column 'prompt' is empty"),
        ({"prompt": "a"}, "ask", "no text in column 'ask'"),
        ({"ask": [1]}, "ask", "no text in column 'ask' ('ask' is an array)"),
        (
            {"prompt": None},
            None,
            "no text in column prompt, instruction, question, query, problem, text, input ('prompt'",
        ),
        ({"input": "-"}, None, "column 'input' holds '-': the text itself is not in this dataset"),
    ],
)
def test_faults(row: dict[str, Any], column: str | None, reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        prompt.read(row, column)
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"prompt": "a", "response": "b", "answer": "c"}, ["b"]),
        ({"question": "a", "answer": "b"}, ["b"]),
        ({"prompt": "a", "completion": " ", "output": "c"}, ["c"]),
        ({"prompt": "a", "response": {"text": "b"}}, []),
        ({"prompt": "a"}, []),
    ],
)
def test_the_answer_beside_it_is_recorded_and_not_sent(row: dict[str, Any], answers: list[str]) -> None:
    read = prompt.read(row)
    assert read.prompt.messages == [user("a")]
    assert read.later == [assistant(text) for text in answers]
