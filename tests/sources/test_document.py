import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.sources import document

ROWS: list[dict[str, Any]] = [{"prompt": "a"}, {"prompt": "b", "n": [1, {"x": None}]}, {"prompt": "é 😀"}]
CHAT = {"messages": [{"role": "user", "content": "hi"}], "tools": []}


def read(tmp_path: Path, data: bytes | str, name: str = "a.json") -> list[tuple[int, dict[str, Any] | str]]:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return [(where.line, row) for where, row in document.read(path)]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\ufeff \n" + json.dumps(ROWS, ensure_ascii=False) + "\r\n",
        json.dumps({"version": 1, "data": ROWS}),
        json.dumps({"version": 1, "data": ROWS}, indent=1),
        "\n".join(map(json.dumps, ROWS)),
        "\ufeff" + "\r\n".join(map(json.dumps, ROWS)) + "\r\n",
    ],
    ids=["array", "indented array", "bom array", "object", "indented object", "lines", "bom crlf lines"],
)
def test_shapes(tmp_path: Path, text: str) -> None:
    expected = list(enumerate(ROWS, start=1))
    assert read(tmp_path, text) == expected
    assert read(tmp_path, gzip.compress(text.encode()), "a.json.gz") == expected


@pytest.mark.parametrize("text", [json.dumps(CHAT), json.dumps(CHAT, indent=2), json.dumps({"prompt": "x"})])
def test_a_single_row(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == [(1, json.loads(text))]


@pytest.mark.parametrize("text", ["", "  \n", "[]", "[ ]"])
def test_nothing(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []


def test_one_bad_element_does_not_cost_the_others(tmp_path: Path) -> None:
    data = b'[{"n": 1}, {"n": NaN}, {"n": "\\ud800"}, {"n": "\xff"}, 5, {"n": 6}]'
    found = read(tmp_path, data)
    assert [n for n, row in found if isinstance(row, dict)] == [1, 6]
    reasons = [str(row) for _, row in found[1:5]]
    assert [r.split()[0] for r in reasons] == ["NaN", "lone", "not", "the"]


@pytest.mark.parametrize("tail", [', {"n": 2', "", ",", ' {"n": 2}]', ", nope]"])
def test_a_torn_array_keeps_what_is_whole(tmp_path: Path, tail: str) -> None:
    found = read(tmp_path, '[\n{"n": 1}' + tail)
    assert found[0] == (1, {"n": 1})
    assert len(found) == 2 and found[1][0] == 2
    assert "at line 2 column" in str(found[1][1]) and "rest of the file" in str(found[1][1])


def test_json_lines_with_a_torn_first_line(tmp_path: Path) -> None:
    found = read(tmp_path, '{"n": "to\n{"n": 2}\n')
    assert "torn" in str(found[0][1]) and found[1] == (2, {"n": 2})


def test_a_torn_object_and_a_cut_file(tmp_path: Path) -> None:
    ((line, reason),) = read(tmp_path, '{\n "data": [\n')
    assert line == 1 and "torn" in str(reason)
    packed = gzip.compress(json.dumps(ROWS).encode())
    ((line, reason),) = read(tmp_path, packed[:-20], "a.json.gz")
    assert line == 1 and "cut short" in str(reason)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda j: st.lists(j, max_size=3))


@settings(deadline=None)  # it writes files, and the first example imports
@given(rows=st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3)), indent=st.sampled_from([None, 0, 2]))
def test_arrays_round_trip(tmp_path_factory, rows, indent) -> None:
    found = read(tmp_path_factory.mktemp("d"), json.dumps(rows, indent=indent))
    assert found == list(enumerate(rows, start=1))
