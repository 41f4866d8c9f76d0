from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.sources import literal
from draftmill.sources.fault import RowFault


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("{'a': (1, None), 'b': True}", {"a": [1, None], "b": True}),
        ("{'a': true, 'b': null}", {"a": True, "b": None}),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        (" {'a': \"it's\"}\n", {"a": "it's"}),
        (r"{'pattern': '\d'}", {"pattern": r"\d"}),
        ("{'a': -1.5}", {"a": -1.5}),
    ],
)
def test_value(text: str, value: Any) -> None:
    assert literal.value(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "a.b", "{1, 2", "{'a'", "{'a': f()}", "{'a': b}", "{'a': 1j}", "__import__('os')"),
        *('{"a": NaN}', '{"a": "\\ud800"}', "[" * 500, "1" * 9999),
    ],
)
def test_no_value(text: str) -> None:
    with pytest.raises(RowFault):
        literal.value(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1}{"b": 2}\n\n{"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ('{"a": 1}, {"b": 2},', [{"a": 1}, {"b": 2}]),
        ("[1, 2]", [1, 2]),
        ("[1] [2]", [[1], [2]]),
        ("{'a': 1}", [{"a": 1}]),
        (" ", []),
    ],
)
def test_values(text: str, values: list[Any]) -> None:
    assert literal.values(text) == values


@pytest.mark.parametrize("text", ['{"a": 1} and', '{"a": 1} {"b"', "{'a': 1} {'b': 2}"])
def test_no_values(text: str) -> None:
    with pytest.raises(RowFault):
        literal.values(text)


@given(st.text("{}[]'\"\\:,abtruefalsnoNTF0123456789.-\n ()", max_size=30))
def test_whatever_is_read_can_be_written(text: str) -> None:
    try:
        value = literal.value(text)
    except RowFault:
        return
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda j: st.lists(j, max_size=3) | st.dictionaries(st.text(max_size=3), j, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_pythons_spelling_of_a_value_is_that_value(value: Any) -> None:
    assert literal.value(repr([value])) == [value]
