import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.errors import SourceError
from draftmill.verify.habits import blocks
from draftmill.verify.lines import as_mask, parts, read, rows

ROWS = [{"input_ids": [5, 6, n], "loss_mask": [0, 1, 1]} for n in range(50)]


def written(path: Path, spaced: bool) -> Path:
    text = "".join(json.dumps(row, separators=None if spaced else (",", ":")) + "\n" for row in ROWS)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.parquet"])
@pytest.mark.parametrize("spaced", [True, False])
@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_every_row_stands_in_one_part(tmp_path: Path, name: str, spaced: bool, size: int) -> None:
    found = [row for part in parts(written(tmp_path / name, spaced), size) for row in rows(part)]
    assert [row.ids.tolist() for row in found] == [row["input_ids"] for row in ROWS]
    assert all(row.mask.tolist() == [0, 1, 1] and not row.fault and not row.mask_fault for row in found)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"is none of \.jsonl"):
        list(parts(tmp_path / "rows.csv"))


def test_half_a_packed_file_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl.gz", True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match="cannot be unpacked"):
        list(parts(path))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("{", "end|truncated|invalid|malformed"),
        ('{"input_ids": [1, "a"], "loss_mask": [0, 1]}', "input_ids"),
        ('{"input_ids": [1, 2.5], "loss_mask": [0, 1]}', "input_ids"),
        ("[1, 2]", "object|dict"),
        ('{"loss_mask": [1]}', "input_ids"),
    ],
)
def test_a_line_that_is_no_row_says_why(row: str, fault: str) -> None:
    found = read(row.encode())
    assert any(word.lower() in found.fault.lower() for word in fault.split("|")), found.fault


@pytest.mark.parametrize(
    ("row", "thinking"),
    [
        ({"messages": [{"role": "assistant", "content": "<think>a</think>b"}]}, True),
        ({"messages": [{"role": "assistant", "content": "b", "reasoning_content": "<think>a</think>"}]}, False),
        ({"choices": [{"message": {"content": "b"}}], "usage": {"completion_tokens": 1}}, False),
    ],
)
def test_text_without_ids_is_known(row: dict[str, Any], thinking: bool) -> None:
    found = read(json.dumps(row).encode())
    assert (found.legacy, found.thinking, found.fault) == (True, thinking, "")


def test_labels_serve_as_a_mask() -> None:
    found = read(b'{"input_ids": [4, 5, 6], "labels": [-100, 5, 6]}')
    assert (found.ids.tolist(), found.mask.tolist()) == ([4, 5, 6], [0, 1, 1])


@given(st.lists(st.integers(0, 3), max_size=40), st.booleans())
def test_a_mask_is_read_as_it_stands(mask: list[int], spaced: bool) -> None:
    found, fault = as_mask(json.dumps(mask, separators=None if spaced else (",", ":")).encode())
    assert bool(fault) == any(value > 1 for value in mask)
    assert found.tolist() == [int(value > 0) for value in mask]


@given(st.lists(st.integers(0, 1), max_size=40))
def test_blocks_are_what_is_supervised(mask: list[int]) -> None:
    spans = blocks(np.array(mask, np.uint8))
    inside = {at for start, end in spans for at in range(start, end)}
    assert inside == {at for at, value in enumerate(mask) if value}
    assert all(a[1] < b[0] for a, b in pairwise(spans))
