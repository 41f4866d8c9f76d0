"""UltraChat as it was published; its form with messages is among the rows of ``test_messages``."""

from typing import Any

import pytest

from draftmill.records import Message
from draftmill.sources import ultrachat
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, user


@pytest.mark.parametrize(
    ("data", "messages", "later"),
    [
        (["How do ships float?", "They displace water."], [user("How do ships float?")], 1),
        (["a", "b", "c", "d"], [user("a"), assistant("b"), user("c")], 1),
        (["a", "b", "c"], [user("a"), assistant("b"), user("c")], 0),  # ends with a question
        (["a"], [user("a")], 0),
        (["Übersetze:\n\n“x”", " b \n", "c", "d"], [user("Übersetze:\n\n“x”"), assistant(" b \n"), user("c")], 1),
    ],
)
def test_golden_rows(data: list[str], messages: list[Message], later: int) -> None:
    row = {"id": "s_0", "data": data}
    assert "of user and assistant in turn" in str(ultrachat.recognise(row))
    read = ultrachat.read(row)
    assert read.prompt.messages == messages
    assert [m["content"] for m in read.later] == data[len(data) - later :]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"data": []}, "column 'data' is an empty array"),
        ({"data": None}, "column 'data' is null"),
        ({"data": [["a"]]}, "column 'data' is an array of an array first, not a list of texts"),
        ({"data": ["a", None]}, "item 2 of 'data' is null, not a text"),
        ({"data": ["a", "b", " "]}, "item 3 of 'data' is empty"),
        ({"data": {"a": 1}}, "column 'data' is an object, not a list of texts"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        ultrachat.read(row)
    assert caught.value.reason.startswith(reason)


def test_a_list_of_texts_in_another_column_is_not_taken_for_it() -> None:
    assert ultrachat.recognise({"dialog": ["a", "b"]}, "dialog") is None
    assert ultrachat.read({"dialog": ["a", "b"]}, "dialog").prompt.messages == [user("a")]
