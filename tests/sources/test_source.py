import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from draftmill import sources
from draftmill.errors import SourceError
from draftmill.recipe import Dataset
from draftmill.records import SourceRow, UnreadRow
from draftmill.sources import Source


def open_source(tmp_path: Path, source: str, **fields: Any) -> Source:
    return sources.open_source(Dataset(name="d", source=source, **fields), tmp_path)


def write(path: Path, *rows: object) -> None:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


def test_rows_good_and_bad(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"prompt": "one"}, "{torn", "", {"prompt": ""}, {"prompt": "five"})
    source = open_source(tmp_path, "a.jsonl")
    assert (source.format, source.files) == ("prompt", (f"{tmp_path}/a.jsonl",))
    assert source.why == "column 'prompt' is a text; 2 of the first 3 rows can be read so"
    for _ in range(2):  # from the start each time
        rows = list(source.rows())
        assert [row.where.line for row in rows] == [1, 2, 4, 5]
        assert [isinstance(row, SourceRow) for row in rows] == [True, False, False, True]
        assert [row.reason for row in rows if isinstance(row, UnreadRow)][1] == "column 'prompt' is empty"


@pytest.mark.parametrize(
    ("system", "roles", "text"),
    [(None, ["system", "user"], "old"), ("new", ["system", "user"], "new"), ("", ["user"], "hi")],
)
def test_the_recipes_system_prompt_replaces_the_recorded_one(
    tmp_path: Path, system: str | None, roles: list[str], text: str
) -> None:
    write(tmp_path / "a.jsonl", {"messages": [{"role": "system", "content": "old"}, {"role": "user", "content": "hi"}]})
    (row,) = open_source(tmp_path, "a.jsonl", system=system).rows()
    assert isinstance(row, SourceRow)
    assert [m["role"] for m in row.conversation.messages] == roles
    assert row.conversation.messages[0]["content"] == text


def test_the_column(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"prompt": "not this", "body": "this"}, {"prompt": "nor this"})
    good, bad = open_source(tmp_path, "a.jsonl", column="body").rows()
    assert isinstance(good, SourceRow) and good.conversation.messages[0]["content"] == "this"
    assert isinstance(bad, UnreadRow) and bad.reason == "no text in column 'body'"


@pytest.mark.parametrize(
    ("lines", "fields", "message", "advice"),
    [
        ([], {}, "holds no row that can be read", "it is empty"),
        (["{torn"], {}, "holds no row that can be read", "a.jsonl:1: not valid JSON at column 2"),
        ([{"x": 1}], {}, "no known format", "the columns are x"),
        (
            [{"prompt": "a", "kind": "x"}],
            {"where": {"knd": "x"}},
            "where: none of its first 1 rows",
            "did you mean kind?",
        ),
    ],
)
def test_faults_of_the_whole(tmp_path: Path, lines: list[Any], fields: Any, message: str, advice: str) -> None:
    write(tmp_path / "a.jsonl", *lines)
    with pytest.raises(SourceError) as caught:
        open_source(tmp_path, "a.jsonl", **fields)
    assert message in caught.value.message and advice in caught.value.advice


def test_a_hub_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from draftmill.sources import hub

    write(tmp_path / "test.jsonl", {"prompt": "one"}, {"prompt": "two"})
    monkeypatch.setattr(hub, "open_dataset", lambda _, subset: hub.load(str(tmp_path), "test", subset, "c0ffee"))
    monkeypatch.setattr(hub, "_revision", lambda *_: "c0ffee")
    source = open_source(tmp_path, "hf:owner/name:test")
    assert source.files == (f"hf:{tmp_path}:test",)
    assert source.fingerprint() == {f"hf:{tmp_path}:test": "c0ffee"}
    assert [str(row.where) for row in source.rows()] == [f"hf:{tmp_path}:test:1", f"hf:{tmp_path}:test:2"]


TEXT = st.text(max_size=8)
PLAIN = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXT})
CALL = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {
                    "function": st.fixed_dictionaries(
                        {"name": TEXT, "arguments": st.dictionaries(TEXT, TEXT).map(json.dumps)}
                    )
                }
            ),
            min_size=1,
            max_size=2,
        ),
    },
    optional={"content": st.none() | TEXT},
)
ROW = st.fixed_dictionaries({"messages": st.lists(PLAIN | CALL, min_size=1, max_size=4)})
FUNCTION = pyarrow.struct({"name": pyarrow.string(), "arguments": pyarrow.string()})
MESSAGE = pyarrow.struct(
    {
        "role": pyarrow.string(),
        "content": pyarrow.string(),
        "tool_calls": pyarrow.list_(pyarrow.struct({"id": pyarrow.string(), "function": FUNCTION})),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(ROW, min_size=1, max_size=6))
def test_reading_is_the_same_from_every_kind_of_file(tmp_path_factory, rows) -> None:
    folder = tmp_path_factory.mktemp("s")
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / "a.jsonl").write_bytes(data)
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(data, 1))
    (folder / "a.jsonl.zst").write_bytes(zstandard.compress(data, 1))
    (folder / "a.json").write_text(json.dumps(rows))
    pq.write_table(
        pyarrow.Table.from_pylist(rows, schema=pyarrow.schema({"messages": pyarrow.list_(MESSAGE)})),
        folder / "a.parquet",
    )
    found = []
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.json", "a.parquet"):
        read = list(open_source(folder, name, format="messages").rows())
        assert [row.where.line for row in read] == list(range(1, len(rows) + 1))
        found.append([row.reason if isinstance(row, UnreadRow) else row.conversation for row in read])
    assert all(other == found[0] for other in found)
