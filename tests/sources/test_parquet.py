from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from draftmill.errors import SourceError
from draftmill.sources import parquet

MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=5)},
    optional={"name": st.text(max_size=3)},
)
ROWS = st.lists(
    st.fixed_dictionaries({"messages": st.lists(MESSAGE, min_size=1, max_size=3)}, optional={"id": st.integers(0, 9)}),
    min_size=1,
    max_size=8,
)
SCHEMA = pyarrow.schema(
    {
        "messages": pyarrow.list_(pyarrow.struct({k: pyarrow.string() for k in ("role", "content", "name")})),
        "id": pyarrow.int64(),
    }
)


def write(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    pq.write_table(pyarrow.Table.from_pylist(rows, schema=options.pop("schema", None)), path, **options)
    return path


@settings(deadline=None)  # it writes files, and the first example imports
@given(rows=ROWS, group=st.integers(1, 4))
def test_rows_come_back_as_they_were(tmp_path_factory, rows, group) -> None:
    path = write(tmp_path_factory.mktemp("p") / "a.parquet", rows, schema=SCHEMA, row_group_size=group)
    found = list(parquet.read(path))
    assert [where.line for where, _ in found] == list(range(1, len(rows) + 1))
    assert [row for _, row in found] == rows


def test_nulls_in_lists_stay_and_maps_are_objects() -> None:
    assert parquet.without_nulls({"a": [None, {"b": None, "c": 0}], "d": None}) == {"a": [None, {"c": 0}]}


def test_not_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(SourceError, match=r"a\.parquet: not a whole Parquet file"):
        list(parquet.read(path))


def test_a_damaged_row_group_costs_its_own_rows(tmp_path: Path) -> None:
    rows = [{"prompt": f"row {n} " + "x" * 50} for n in range(30)]
    path = write(tmp_path / "a.parquet", rows, row_group_size=10, compression="zstd", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    start = column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    found = list(parquet.read(path))
    assert [where.line for where, _ in found] == list(range(1, 31))
    assert [isinstance(row, dict) for _, row in found] == [True] * 10 + [False] * 10 + [True] * 10
    assert "row group 2" in str(found[10][1])
