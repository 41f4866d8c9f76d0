from typing import Any

import pytest

from draftmill.records import Conversation
from draftmill.sources import turns
from draftmill.sources.fault import RowFault


def test_only_the_first_turn_is_asked_for() -> None:
    row = {"question_id": 1, "turns": ["Write a haiku.", "Now in French."]}
    assert turns.recognise(row) == "column 'turns' is a list of user turns"
    assert turns.read(row) == Conversation([{"role": "user", "content": "Write a haiku."}])


def test_a_column_of_another_name() -> None:
    row = {"data": ["a", "b"], "turns": ["c"]}
    assert turns.read(row, "data") == Conversation([{"role": "user", "content": "a"}])


@pytest.mark.parametrize(
    "row", [{}, {"turns": []}, {"turns": "a"}, {"turns": [{"role": "user"}]}, {"turns": ["a", None]}]
)
def test_other_rows(row: dict[str, Any]) -> None:
    assert turns.recognise(row) is None
    with pytest.raises(RowFault, match="no column 'turns' with a list of texts"):
        turns.read(row)


def test_an_empty_turn() -> None:
    with pytest.raises(RowFault, match="empty"):
        turns.read({"turns": [" ", "b"]})
