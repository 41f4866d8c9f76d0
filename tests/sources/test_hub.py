"""The hub's own loader, on datasets in a local folder; only being offline is tested against the hub itself."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet as pq

from draftmill.errors import SourceError
from draftmill.sources import hub

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


def test_offline() -> None:
    program = (
        "from draftmill.errors import SourceError\nfrom draftmill.sources import hub\n"
        "try: hub.open_dataset('hf:owner/name', None)\n"
        "except SourceError as error: print(error.message, '|', error.advice)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("hf:owner/name: the hub cannot be reached:") and "| without the hub" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("RepositoryNotFoundError", "there is no such dataset on the hub"),
        ("GatedRepoError", "its owner must grant access first"),
        ("HfHubHTTPError", "the hub refuses"),
    ],
)
def test_what_the_hub_answers(monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    import huggingface_hub
    from huggingface_hub import errors

    class Refusing:
        def dataset_info(self, *_: object, **__: object) -> None:
            error = getattr(errors, name)
            raise error.__new__(error)

    monkeypatch.setattr(huggingface_hub, "HfApi", Refusing)
    with pytest.raises(SourceError, match=said):
        hub.open_dataset("hf:owner/name", None)
