from typing import Any

import pytest

from draftmill.records import Conversation
from draftmill.sources import turns
from draftmill.sources.fault import RowFault


def test_only_the_first_turn_is_asked_for() -> None:
    row = {"question_id": 1, "turns": ["Write a haiku.", "Now in French."]}
    assert turns.recognise(row) == "column 'turns' is a list of user turns"
    read = turns.read(row)
    assert read.prompt == Conversation([{"role": "user", "content": "Write a haiku."}])
    assert read.later == [{"role": "assistant", "content": ""}, {"role": "user", "content": "Now in French."}]


def test_a_column_of_another_name() -> None:
    row = {"data": ["a", "b"], "turns": ["c"]}
    assert turns.read(row, "data").prompt == Conversation([{"role": "user", "content": "a"}])


@pytest.mark.parametrize(
    "row", [{}, {"turns": []}, {"turns": "a"}, {"turns": [{"role": "user"}]}, {"turns": [["a"]]}, {"turns": None}]
)
def test_other_rows(row: dict[str, Any]) -> None:
    assert turns.recognise(row) is None
    with pytest.raises(RowFault, match="column 'turns'"):
        turns.read(row)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([" ", "b"], "item 1 of 'turns' is empty"),
        (["a", ""], "item 2 of 'turns' is empty"),
        (["a", None], "item 2 of 'turns' is null, not a text"),
        (["a", ["b"]], "item 2 of 'turns' is an array, not a text"),
    ],
)
def test_turns_that_are_none(said: list[Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        turns.read({"turns": said})
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("row", "later"),
    [
        ({"question_id": 81, "category": "writing", "turns": ["a", "b"], "reference": ["x", "y"]}, 2),
        ({"question_id": 241, "category": "translation", "turns": ["Übersetze: hello"]}, 0),
        ({"question_id": "m-1", "category": "math", "turns": ["1+1?", "And 2+2?", "And 3+3?"]}, 4),
        ({"prompt_id": 3, "category": "coding", "turns": ["def f():\n", "Shorter."]}, 2),
        ({"turns": ["a"], "system": "Be brief."}, 0),
    ],
)
def test_golden_rows(row: dict[str, Any], later: int) -> None:
    read = turns.read(row)
    assert turns.recognise(row)
    assert read.prompt.messages[-1] == {"role": "user", "content": row["turns"][0]}
    assert [m["content"] for m in read.later[1::2]] == row["turns"][1:]
    assert len(read.later) == later and all(m == {"role": "assistant", "content": ""} for m in read.later[::2])
