import json

import pytest

from draftmill.sources import json_text
from draftmill.sources.fault import RowFault

FAULTS = [
    (b'{"a": "\\ud800"}', r"lone surrogate \ud800 at column 8: half a character"),
    (b'{"a": "\\\\ud800 \\ud83d\\ude00 \\uDE00"}', r"lone surrogate \uDE00 at column 29: half a character"),
    (b'{"a": NaN}', "NaN at column 7 is not JSON"),
    (b'{"NaN": -Infinity}', "-Infinity at column 9 is not JSON"),
    (b'{"a": "torn', "the JSON is torn: the string that starts at column 7 does not end"),
    (b'{"a": [1, 2', "the JSON is torn: it ends at column 12 (expecting ',' delimiter)"),
    (b'{"a":', "the JSON is torn: it ends at column 6 (expecting value)"),
    (b"{'a': 1}", "not valid JSON at column 2: expecting property name enclosed in double quotes"),
    (b'{"a": 1} x', "not valid JSON at column 10: extra data"),
    (b'{"a": "\xff"}', "not valid UTF-8: byte 0xff at byte 8"),
    (b'{\n  "a": nope\n}', "not valid JSON at line 2 column 8: expecting value"),
    (b'{"a": "x\ty"}', "not valid JSON at column 9: invalid control character"),
    (b'{"a": 1e999}', "not readable as JSON: number out of range"),
    (b"[1, 2]", "the row is an array, not a JSON object"),
    (b'"text"', "the row is a string, not a JSON object"),
    (b"null", "the row is null, not a JSON object"),
    (b'{"a": ' + b"[" * 100_000, "the JSON is nested too deeply"),
]


@pytest.mark.parametrize(("text", "reason"), FAULTS, ids=[reason[:40] for _, reason in FAULTS])
def test_fault_names_kind_and_place(text: bytes, reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        json_text.row(text)
    assert caught.value.reason.startswith(reason)


@pytest.mark.parametrize(
    "row", [{"a": "😀 \\ud800 is text"}, {"n": 2**70, "f": 1.5, "x": None}, {"é": ["\x00", "\u2028"]}]
)
def test_whole_rows_are_read(row: dict[str, object]) -> None:
    assert json_text.row(json.dumps(row).encode()) == row
    assert json_text.row(json.dumps(row, ensure_ascii=False)) == row
