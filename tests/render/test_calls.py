"""The text of tool calls, read in each way in which models write them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.render.calls import Reading, read, schemas
from draftmill.render.families import Body
from tests.render.test_parse import tool

KNOWN = schemas(
    [
        tool(
            "f",
            text={"type": "string"},
            number={"type": "integer"},
            maybe={"type": ["string", "null"]},
            either={"anyOf": [{"type": "string"}, {"type": "integer"}]},
            list={"type": "array"},
            blank={},
        )
    ]
)


@pytest.mark.parametrize(
    ("parameter", "written", "value"),
    [
        ("text", "7", "7"),
        ("text", "null", "null"),
        ("text", " a\n", " a\n"),
        ("number", "7", 7),
        ("number", "seven", "seven"),  # said as it is: nothing is mended
        ("maybe", "null", None),
        ("maybe", "7", "7"),
        ("either", "7", "7"),
        ("list", '["a", 1]', ["a", 1]),
        ("blank", "true", True),
        ("blank", "true story", "true story"),
        ("unknown", "1.5", 1.5),
    ],
)
def test_values_without_quotes_are_typed_by_the_schema(parameter: str, written: str, value: Any) -> None:
    keys = f"f\n<arg_key>{parameter}</arg_key>\n<arg_value>{written}</arg_value>\n"
    assert [r.value for r in read(Body.KEYS, keys, None, KNOWN)] == [{parameter: value}]
    invoke = f'<invoke name="f"><parameter name="{parameter}">{written}</parameter></invoke>'
    assert [r.value for r in read(Body.INVOKE, invoke, None, KNOWN)] == [{parameter: value}]


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("<function=f>\n<parameter=text>\nls\n-l\n</parameter>\n</function>", [("f", {"text": "ls\n-l"}, "")]),
        ("<function=f>\n</function>\n<function=g>\n</function>", [("f", {}, ""), ("g", {}, "")]),
        ("<function=f>\n<parameter=text>\nls", [("f", None, "the arguments cannot be read from '<parameter=text>")]),
        ("<function=f>", [("f", None, "the call does not end")]),
        ("<function=></function>", [("", None, "the call names no function")]),
        ("f()", [("", None, "this is no call")]),
        ("\n", [("", None, "the call is empty")]),
    ],
)
def test_functions_in_angle_brackets(text: str, readings: list[tuple[str, Any, str]]) -> None:
    found = read(Body.FUNCTION, text, None, KNOWN)
    assert [(r.name, r.value) for r in found] == [(name, value) for name, value, _ in readings]
    assert all(
        r.fault.startswith(fault) and bool(r.fault) is bool(fault)
        for r, (*_, fault) in zip(found, readings, strict=True)
    )


def test_arguments_keep_the_characters_that_were_written() -> None:
    (reading,) = read(Body.JSON, '\n{"name": "f", "arguments": {"text":  "\\u00fc", "number": 1e0}}\n', None, KNOWN)
    assert reading == Reading("f", '{"text":  "\\u00fc", "number": 1e0}', {"text": "ü", "number": 1.0})


@pytest.mark.parametrize("tools", [None, [], [{}], [{"function": 1}], [{"function": {"name": "f", "parameters": []}}]])
def test_malformed_tools_are_passed_over(tools: Any) -> None:
    assert schemas(tools).get("f", {}) == {}


PIECES = [
    *('{"name": "f"', '"arguments": ', "}", "{", "[", "]", ",", ";", '"', "\\ud800", "\ufffd", "a", " ", "\n", "```"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "functions.f:0", "function"),
    *('<invoke name="f">', "</invoke>", '<parameter name="x">', "</parameter>"),
    *("<function=f>", "</function>", "<parameter=x>"),
]


@pytest.mark.parametrize("body", Body)
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=12),
    tail=st.none() | st.lists(st.sampled_from(PIECES), max_size=12),
)
def test_any_text_is_read(body: Body, pieces: list[str], tail: list[str] | None) -> None:
    found = read(body, "".join(pieces), None if tail is None else "".join(tail), KNOWN)
    assert found
    assert all(reading.value is None for reading in found if reading.fault)


def test_a_long_call_of_nothing_costs_no_time() -> None:
    """Patterns that look ahead through white space again and again would take minutes here."""
    blank = " \n" * 100_000
    for body in Body:
        assert read(body, blank, blank, KNOWN)
        assert read(body, '<invoke name="f">' + blank, None, KNOWN)
        assert read(body, "f<arg_key>x</arg_key>" + blank + "<function=f>" + blank, None, KNOWN)
