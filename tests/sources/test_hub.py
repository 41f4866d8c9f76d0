"""The hub's own loader: on datasets in a local folder in the hub's layout, and on one that a hub of our own serves."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet as pq

from draftmill.errors import SourceError
from draftmill.sources import hub
from tests.sources.fake_hub import REVISION, FakeHub, serving

ROWS = [
    {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello", "name": "bot"}]},
    {"messages": [{"role": "user", "content": "bye"}]},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pq.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    pq.write_table(pyarrow.Table.from_pylist(ROWS[:1]), tmp_path / "test.parquet")
    return str(tmp_path)


def test_a_split_is_streamed_again_and_again(folder: str) -> None:
    opened = hub.load(folder, None, None)
    assert opened.names == (f"hf:{folder}:train",)
    for _ in range(2):
        found = list(opened.readings())
        assert [row for _, row in found] == ROWS
        assert [where.line for where, _ in found] == [1, 2]
    assert len(list(hub.load(folder, "test", None).readings())) == 1


def test_a_missing_split_names_those_there_are(folder: str) -> None:
    with pytest.raises(SourceError, match="no split 'dev'") as caught:
        hub.load(folder, "dev", None)
    assert "train, test" in caught.value.advice


def test_the_only_split_is_taken(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert hub.load(str(tmp_path), None, None).split == "test"


def test_a_missing_subset_names_those_there_are(folder: str) -> None:
    with pytest.raises(SourceError, match=r"BuilderConfig 'extra' not found\. Available: \['default'\]"):
        hub.load(folder, None, "extra")


def test_several_subsets_and_none_named(tmp_path: Path) -> None:
    configs = "".join(f"- config_name: {n}\n  data_files: {n}.jsonl\n" for n in ("main", "extra"))
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    for name in ("main", "extra"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(ROWS[1]) + "\n")
    with pytest.raises(SourceError) as caught:
        hub.load(str(tmp_path), None, None)
    assert "main" in caught.value.message and "subset" in caught.value.advice
    assert len(list(hub.load(str(tmp_path), None, "extra").readings())) == 1


def test_a_row_that_does_not_load_names_its_number(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"prompt": "a"}\n{"prompt": \n')
    with pytest.raises(SourceError, match=r"row \d+ cannot be loaded"):
        list(hub.load(str(tmp_path), None, None).readings())


@pytest.mark.parametrize("source", ["hf:", "hf:a/b/c", "hf:a/b:", "hf:a b", "hf:a/b:train[:5]"])
def test_names_that_are_none(source: str) -> None:
    with pytest.raises(SourceError) as caught:
        hub.open_dataset(source, None)
    assert "hf:owner/name" in caught.value.advice


CARD = """---
configs:
- config_name: main
  default: true
  data_files: [{split: train, path: main/train-*}, {split: test, path: main/test-*}]
- config_name: extra
  data_files: extra/*.parquet
---
# A dataset
"""


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """A dataset as it lies on the hub: a card that says which files are which split, and Parquet in shards."""
    folder = tmp_path / "layout"
    for name in ("main", "extra"):
        (folder / name).mkdir(parents=True)
    (folder / "README.md").write_text(CARD)
    rows = [{"messages": [{"role": "user", "content": f"hi {n}"}]} for n in range(9)]
    pq.write_table(pyarrow.Table.from_pylist(rows[:5]), folder / "main" / "train-00000-of-00002.parquet")
    pq.write_table(pyarrow.Table.from_pylist(rows[5:]), folder / "main" / "train-00001-of-00002.parquet")
    pq.write_table(pyarrow.Table.from_pylist(rows[:2]), folder / "main" / "test-00000-of-00001.parquet")
    pq.write_table(pyarrow.table({"prompt": ["x", "", "z"]}), folder / "extra" / "a.parquet")
    return folder


@pytest.fixture
def fake(layout: Path) -> Iterator[FakeHub]:
    with serving(layout) as served:
        yield served


READ = """
import json, sys
from draftmill.errors import SourceError
from draftmill.recipe import Dataset
from draftmill.records import UnreadRow
from draftmill.sources import open_source
from pathlib import Path
for fields in json.loads(sys.argv[1]):
    told = {}
    try:
        source = open_source(Dataset(name="d", **fields), Path())
        told = {"format": source.format, "revisions": source.fingerprint(), "rows": []}
        for row in (row for _ in range(2) for row in source.rows()):
            text = row.reason if isinstance(row, UnreadRow) else row.conversation.messages[0]["content"]
            told["rows"].append([str(row.where), text])
    except SourceError as error:
        told = {"message": error.message, "advice": error.advice}
    print(json.dumps(told))
"""


def apart(environment: dict[str, str], *datasets: dict[str, str]) -> list[Any]:
    """What a process of its own finds in datasets. Nothing else is printed: no bar, no line about a retry."""
    path = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", READ, json.dumps(datasets)]
    done = subprocess.run(command, env=environment | path, capture_output=True, text=True, check=True)
    assert not done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_hub_datasets_from_end_to_end(fake: FakeHub, layout: Path, tmp_path: Path) -> None:
    chosen, test, extra, none = apart(
        fake.environment(tmp_path / "home"),
        {"source": "hf:owner/name"},
        {"source": "hf:owner/name:test", "subset": "main"},
        {"source": "hf:owner/name", "subset": "extra"},
        {"source": "hf:owner/name:dev"},
    )
    train = [[f"hf:owner/name:train:{n + 1}", f"hi {n}"] for n in range(9)]
    assert chosen == {"format": "messages", "revisions": {"hf:owner/name:train": REVISION}, "rows": train * 2}
    assert test["rows"] == [[f"hf:owner/name:test (main):{n + 1}", f"hi {n}"] for n in range(2)] * 2
    assert extra["rows"][:3] == [
        ["hf:owner/name:train (extra):1", "x"],
        ["hf:owner/name:train (extra):2", "column 'prompt' is empty"],
        ["hf:owner/name:train (extra):3", "z"],
    ]
    assert none["message"] == "hf:owner/name: there is no split 'dev'" and "train, test" in none["advice"]
    files = [path for path in fake.asked if "/resolve/" in path]
    assert files and all(f"/{REVISION}/" in path for path in files), "never main, which may change meanwhile"
    local = hub.load(str(layout), None, None)
    assert [row["messages"][0]["content"] for _, row in local.readings()] == [text for _, text in train]


@pytest.fixture
def asked(fake: FakeHub, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """The hub that this process asks about datasets."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{fake.server_port}")
    return fake


@pytest.mark.parametrize(
    ("refuses", "message", "advice"),
    [
        ((401, "RepoNotFound"), "there is no such dataset on the hub", "check owner and name; a private dataset needs"),
        ((403, "GatedRepo"), "its owner must grant access first", "accept its terms on its page and log in with"),
        ((500, ""), "the hub refuses: Server error '500 Internal Server Error'", ""),
        ((429, ""), "the hub refuses: ", ""),
    ],
)
def test_a_hub_that_refuses(asked: FakeHub, refuses: tuple[int, str], message: str, advice: str) -> None:
    asked.refuses = refuses
    with pytest.raises(SourceError) as caught:
        hub.open_dataset("hf:owner/name", None)
    assert caught.value.message.startswith(f"hf:owner/name: {message}") and caught.value.advice.startswith(advice)


def test_without_the_hub_it_says_what_it_would_need_and_asks_but_once(asked: FakeHub) -> None:
    asked.hangs_up = True
    with pytest.raises(SourceError, match="hf:owner/name: the hub cannot be reached: ") as caught:
        hub.open_dataset("hf:owner/name:test", "main")
    need = f"it needs the dataset owner/name (split test, subset main) from http://127.0.0.1:{asked.server_port}; "
    fetch = "`hf download owner/name --repo-type dataset --local-dir name`"
    assert caught.value.advice.startswith(f"{need}where that can be reached: {fetch}; then name its files here")
    assert len(asked.asked) == 1


def test_told_to_stay_offline(fake: FakeHub, tmp_path: Path) -> None:
    environment = fake.environment(tmp_path) | {"HF_HUB_OFFLINE": "1"}
    (told,) = apart(environment, {"source": "hf:owner/name"})
    assert "the hub cannot be reached: " in told["message"] and "(split train)" in told["advice"]
    assert not fake.asked
