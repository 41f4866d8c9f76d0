from typing import Any

import pytest

from draftmill.records import Message
from draftmill.sources import alpaca
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, system, user


@pytest.mark.parametrize(
    ("row", "messages"),
    [
        ({"instruction": "Sort.", "input": "3 1 2", "output": "1 2 3"}, [user("Sort.\n\n3 1 2")]),
        ({"instruction": "Sort.", "input": "", "output": "Of what?"}, [user("Sort.")]),
        ({"instruction": "Sort.", "input": "<noinput>", "output": ""}, [user("Sort.")]),
        ({"instruction": "Sort.", "input": "Noinput", "output": "x", "text": "Below is an …"}, [user("Sort.")]),
        ({"instruction": "Sort.", "input": None, "output": None}, [user("Sort.")]),
        (
            {
                "id": "seed_task_1",
                "instruction": "Sort.",
                "instances": [{"input": "3 1 2", "output": ""}, {"input": "x"}],
            },
            [user("Sort.\n\n3 1 2")],
        ),
        ({"instruction": "Sort.", "instances": [{"input": "", "output": "a"}]}, [user("Sort.")]),
        (
            {
                "instruction": "And down?",
                "input": "",
                "output": "3 2 1",
                "system": "Be brief.",
                "history": [["Sort 3 1 2.", "1 2 3"]],
            },
            [system("Be brief."), user("Sort 3 1 2."), assistant("1 2 3"), user("And down?")],
        ),
    ],
)
def test_golden_rows(row: dict[str, Any], messages: list[Message]) -> None:
    assert str(alpaca.recognise(row)).startswith("column 'instruction' is a text, beside '")
    assert alpaca.read(row).prompt.messages == messages


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"instruction": "Sort.", "input": "3 1 2", "output": "1 2 3"}, ["1 2 3"]),
        ({"instruction": "Sort.", "output": "<think>\nHm.\n</think>\n\n1 2 3"}, ["1 2 3"]),
        ({"instruction": "Sort.", "instances": [{"input": "2 1", "output": "1 2"}, {"output": "x"}]}, ["1 2"]),
        ({"instruction": "Sort.", "input": "", "output": " "}, []),
        ({"instruction": "Sort.", "input": "", "output": None}, []),
        ({"instruction": "Sort.", "input": "", "output": ["1"]}, []),
        ({"instruction": "Sort.", "input": "3 1 2"}, []),
    ],
)
def test_the_output_is_the_recorded_answer(row: dict[str, Any], answers: list[str]) -> None:
    assert alpaca.read(row).later == [assistant(text) for text in answers]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"instruction": "a"}, "no column 'input', 'output', 'instances' beside 'instruction'"),
        ({"instruction": " ", "output": "a"}, "column 'instruction' is empty"),
        ({"instruction": None, "output": "a"}, "column 'instruction' is null, not a text"),
        ({"output": "a"}, "no column 'instruction'"),
        ({"instruction": "a", "input": ["b"]}, "column 'input' is an array, not a text"),
        (
            {"instruction": "a", "instances": [{"input": 5}]},
            "'input' of the first of 'instances' is a number, not a text",
        ),
        ({"instruction": "a", "output": "b", "history": "c"}, "column 'history' is a string, not an array of pairs"),
        (
            {"instruction": "a", "output": "b", "history": [["c", "d"], ["e"]]},
            "item 2 of 'history' is no pair of texts",
        ),
        ({"instruction": "a", "output": "b", "history": [["c", ""]]}, "message 2 (assistant) is empty"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        alpaca.read(row)
    assert caught.value.reason.startswith(reason)


def test_a_column_of_another_name_is_another_format() -> None:
    row = {"instruction": "a", "output": "b", "ask": "c"}
    assert alpaca.recognise(row, "ask") is None
    with pytest.raises(RowFault, match="no column 'ask' in this format"):
        alpaca.read(row, "ask")
