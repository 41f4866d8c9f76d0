from typing import Any

import pytest

from draftmill.sources import opencodeinstruct
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, user

SHAPE = {
    "id": "9",
    "output": "```python\npass\n```",
    "domain": "generic",
    "generation_algorithm": "self-instruct",
    "llm_judgement": '{"requirement_conformance": {"score": 5}}',
    "unit_tests": '["assert f(1) == 1"]',
    "tests_execution_status": '["pass"]',
    "average_test_score": "1.0",
}


@pytest.mark.parametrize(
    "row",
    [
        {**SHAPE, "input": "Write a function that adds."},
        {**SHAPE, "input": "**Parse**\n\n```\na,b\n```\nKeep ünïcode.", "output": ""},
        {**SHAPE, "input": "Sort a list.", "unit_tests": None, "average_test_score": None},
        {"input": "Reverse it.", "output": "…", "generation_algorithm": "evol-instruct"},
        {**SHAPE, "input": " Keep the spaces. ", "llm_judgement": {"score": 1}},
    ],
)
def test_golden_rows(row: dict[str, Any]) -> None:
    assert "column 'input' is a task" in str(opencodeinstruct.recognise(row))
    assert opencodeinstruct.read(row).prompt.messages == [user(row["input"])]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"input": "a", "output": "b"}, "no column 'generation_algorithm'"),
        ({**SHAPE, "input": ""}, "column 'input' is empty"),
        ({**SHAPE, "input": ["a"]}, "column 'input' is an array, not a text"),
        ({**SHAPE, "input": None}, "column 'input' is null, not a text"),
        (SHAPE, "no column 'input'"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        opencodeinstruct.read(row)
    assert caught.value.reason.startswith(reason)


def test_the_output_is_the_recorded_answer() -> None:
    assert opencodeinstruct.read({**SHAPE, "input": "Add."}).later == [assistant(SHAPE["output"])]
