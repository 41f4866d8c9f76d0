import os
from pathlib import Path

import pytest

from draftmill.errors import SourceError
from draftmill.sources.files import open_files

ROW = '{"n": 1}\n'


def test_a_glob_is_sorted_and_relative_to_the_base(tmp_path: Path) -> None:
    base = tmp_path / "odd [name]*"
    (base / "data" / "deep").mkdir(parents=True)
    for name in ("b.jsonl", "a.json", "deep/c.ndjson"):
        (base / "data" / name).write_text(ROW)
    assert [p.name for p in open_files("data/*.json*", base).paths] == ["a.json", "b.jsonl"]
    assert [p.name for p in open_files("data/**/*json*", base).paths] == ["a.json", "b.jsonl", "c.ndjson"]
    found = list(open_files("data/*.json*", base).readings())
    assert [(str(where), row) for where, row in found] == [
        (f"{base}/data/a.json:1", {"n": 1}),
        (f"{base}/data/b.jsonl:1", {"n": 1}),
    ]


def test_absolute_paths_and_globs(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ROW)
    for source in (f"{tmp_path}/a.jsonl", f"{tmp_path}/*.jsonl"):
        assert open_files(source, Path("elsewhere")).paths == (tmp_path / "a.jsonl",)


def test_a_file_whose_name_looks_like_a_glob(tmp_path: Path) -> None:
    (tmp_path / "a[1].jsonl").write_text(ROW)
    assert len(open_files("a[1].jsonl", tmp_path).paths) == 1


@pytest.mark.parametrize(
    ("source", "message", "advice"),
    [
        ("none.jsonl", "none.jsonl: no such file", "recipe's folder"),
        ("*.parquet", "*.parquet: no file fits this pattern", "recipe's folder"),
        ("table.csv", "table.csv: files that end with '.csv' are not read", ".jsonl"),
        ("table.parquet.gz", "files that end with '.parquet.gz' are not read", ".parquet"),
        ("plain", "files that end with '' are not read", ".jsonl"),
        ("some.gz", "files that end with '.gz' are not read", ".jsonl"),
        ("folder.jsonl", "folder.jsonl: is a folder", "folder.jsonl/*.jsonl"),
    ],
)
def test_faults_name_the_path_and_what_would_be_right(tmp_path: Path, source: str, message: str, advice: str) -> None:
    for name in ("table.csv", "table.parquet.gz", "plain", "some.gz"):
        (tmp_path / name).write_text(ROW)
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(SourceError) as caught:
        open_files(source, tmp_path)
    assert message in caught.value.message and str(tmp_path) in caught.value.message
    assert advice in caught.value.advice


def test_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(ROW)
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything
        monkeypatch.setattr(
            Path, "open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
        )
    with pytest.raises(SourceError, match="permission denied"):
        open_files("a.jsonl", tmp_path)


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(ROW)
    opened = open_files("a.jsonl", tmp_path)
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(SourceError, match="no such file"):
        list(opened.readings())
    with pytest.raises(SourceError, match="no such file"):
        opened.fingerprint()


def test_the_fingerprint_names_the_file_that_changed(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(ROW)
    opened = open_files("*.jsonl", tmp_path)
    before = opened.fingerprint()
    assert opened.fingerprint() == before
    (tmp_path / "b.jsonl").write_text(ROW * 2)
    changed = {name for name, stat in opened.fingerprint().items() if before[name] != stat}
    assert changed == {str(tmp_path / "b.jsonl")}
