import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.sources import lines

GOOD = st.dictionaries(st.text(max_size=5), st.text(max_size=8) | st.integers() | st.none(), max_size=3)
BROKEN = st.sampled_from(
    [b'{"a": "to', b"\xff\xfe", b'{"a": NaN}', b'"\\ud800"', b'{"a": "\\udc00"}', b"[1]", b"7", b"}"]
)
BLANK = st.sampled_from([b"", b"  ", b"\t"])
LINES = st.lists(
    st.tuples(st.just("good"), GOOD) | st.tuples(st.just("broken"), BROKEN) | st.tuples(st.just("blank"), BLANK)
)


def read(path: Path) -> list[tuple[int, dict[str, Any] | str]]:
    found = list(lines.read(path))
    assert all(where.file == str(path) for where, _ in found)
    return [(where.line, row) for where, row in found]


@settings(deadline=None)  # it writes files, and the first example imports
@given(
    items=LINES, end=st.sampled_from([b"\n", b"\r\n"]), last_end=st.booleans(), bom=st.booleans(), ascii=st.booleans()
)
def test_every_line_is_accounted_for_once(tmp_path_factory, items, end, last_end, bom, ascii) -> None:
    encoded = [json.dumps(i, ensure_ascii=ascii).encode() if kind == "good" else i for kind, i in items]
    data = (lines.BOM if bom else b"") + end.join(encoded) + (end if last_end else b"")
    folder = tmp_path_factory.mktemp("lines")
    plain, gz, zst = folder / "a.jsonl", folder / "a.jsonl.gz", folder / "a.jsonl.zst"
    plain.write_bytes(data)
    gz.write_bytes(gzip.compress(data, 1))
    zst.write_bytes(zstandard.compress(data, 1))

    found = read(plain)
    assert [n for n, _ in found] == [n for n, (kind, _) in enumerate(items, 1) if kind != "blank"]
    for number, row in found:
        kind, item = items[number - 1]
        assert row == item if kind == "good" else isinstance(row, str) and row
    assert read(gz) == found
    assert read(zst) == found


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_a_cut_file_ends_with_one_reason_at_the_right_line(tmp_path: Path, ending: str, pack) -> None:
    data = b"".join(b'{"prompt": "number %d"}\n' % (n * 7919 % 50_021) for n in range(50_000))
    packed = pack(data)
    path = tmp_path / f"a.jsonl.{ending}"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    *whole, (last, reason) = read(path)
    assert 100 < len(whole) < 50_000 and last == len(whole) + 1
    assert all(isinstance(row, dict) for _, row in whole)
    assert isinstance(reason, str) and "cut short" in reason and "rest of the file" in reason


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1 << 10)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": "' + b"x" * 5000 + b'"}\n{"n": 3}')
    assert [n for n, row in read(path) if isinstance(row, dict)] == [1, 3]
    assert "longer than" in str(read(path)[1][1])


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"a": "x\u2028y\u0085z"}\n{"a": 2}\n'.encode())
    assert read(path) == [(1, {"a": "x\u2028y\u0085z"}), (2, {"a": 2})]
