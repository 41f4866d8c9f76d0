import json
from pathlib import Path

import msgspec
import pytest

from draftmill.errors import StorageError, UsageFault
from draftmill.export.jsonl import export_jsonl
from draftmill.ids import encode
from draftmill.journal.folder import RunFolder
from draftmill.ledger.order import conversation_id
from draftmill.ledger.rows import refresh_rows
from draftmill.ledger.settings import merged, read_settings, settings_of, write_settings
from draftmill.ledger.standing import load_standing
from draftmill.recipe import Recipe
from draftmill.records import Completion, Finish, Prompt
from tests.cli.command import in_process

NAMES = ("a", "b")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two datasets of four prompts; three of each are answered, one of those cut by the limit."""
    folder = RunFolder(tmp_path / "run")
    folder.create()
    recipe = Recipe.model_validate(
        {"model": "m", "engines": ["embedded"], "datasets": [{"name": n, "source": "x"} for n in NAMES]}
    )
    settings = settings_of(recipe, date="2026-01-01", files={}, digests=("", ""), vocab_size=9, stop_ids=(2,))
    write_settings(folder, settings)
    for name in NAMES:
        files = folder.dataset(name)
        files.path.mkdir()
        ids = [conversation_id(name, b"%d" % n, 0) for n in range(4)]
        prompts = [Prompt(id, n, "short", [], [5, 6]) for n, id in enumerate(ids)]
        files.prompts.write_bytes(b"".join(encode(p) + b"\n" for p in prompts))
        reasons = [Finish.STOP, Finish.LENGTH, Finish.STOP]
        answers = [
            Completion(ids[n], n, 0, [7, 2], 2, 2, reason, None, 0, 0.1, "e", 2) for n, reason in enumerate(reasons)
        ]
        files.journal.write_bytes(b"".join(encode(c) + b"\n" for c in answers))
    return folder.path


def rows(path: Path) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_all_counting_rows_in_one_file(run: Path, tmp_path: Path) -> None:
    report = export_jsonl(run, tmp_path / "out" / "rows.jsonl")
    assert (report.rows, report.dropped, report.supervised) == ({"a": 3, "b": 3}, {}, 12)
    assert report.notes == ["a: 1 prompt is still owed", "b: 1 prompt is still owed"]
    found = rows(tmp_path / "out" / "rows.jsonl")
    assert [r["dataset"] for r in found] == ["a"] * 3 + ["b"] * 3
    assert all(r["input_ids"] == [5, 6, 7, 2] and r["loss_mask"] == [0, 0, 1, 1] for r in found)


def test_figures_for_a_script(run: Path, tmp_path: Path) -> None:
    done = in_process("export", run, "--to", tmp_path / "rows.jsonl", "--drop", "truncated", "--json")
    assert json.loads(done.stdout) == {
        "file": str(tmp_path / "rows.jsonl"),
        "rows": {"a": 2, "b": 2},
        "dropped": {"truncated": 2},
        "tokens": 16,
        "supervised": 8,
        "notes": ["a: 1 prompt is still owed", "b: 1 prompt is still owed"],
    }
    assert "4 rows, 8 supervised tokens" in done.stderr


def test_filters_apply_by_name_and_are_counted(run: Path, tmp_path: Path) -> None:
    report = export_jsonl(run, tmp_path / "rows.jsonl", only=("b",), drop=("truncated",))
    assert (report.rows, report.dropped) == ({"b": 2}, {"truncated": 1})


@pytest.mark.parametrize("target", ["a/raw_responses.jsonl", "run.yaml", "rows.jsonl", "a/new.jsonl", "export/../lock"])
def test_no_file_of_the_run_is_overwritten(run: Path, target: str) -> None:
    before = (run / "a" / "raw_responses.jsonl").read_bytes()
    with pytest.raises(UsageFault, match="lies among the run's own files"):
        export_jsonl(run, run / target)
    assert (run / "a" / "raw_responses.jsonl").read_bytes() == before
    assert export_jsonl(run, run / "export" / "rows.jsonl").rows


@pytest.mark.parametrize("target", ["/dev/null", "/proc", "", "-"])
def test_only_a_regular_file_is_written(run: Path, target: str) -> None:
    with pytest.raises(UsageFault, match="--to"):
        export_jsonl(run, Path(target))
    assert Path("/dev/null").is_char_device()


def test_what_cannot_be_read_is_named_and_not_what_is_written(run: Path, tmp_path: Path) -> None:
    journal = run / "a" / "raw_responses.jsonl"
    journal.unlink()
    journal.mkdir()
    with pytest.raises(StorageError, match=r"a/raw_responses\.jsonl: cannot be read: Is a directory"):
        export_jsonl(run, tmp_path / "rows.jsonl")
    assert not (tmp_path / "rows.jsonl").exists()


def test_a_journal_that_is_gone_since_rows_were_built_is_refused_and_one_that_lost_some_is_told(
    run: Path, tmp_path: Path
) -> None:
    files = RunFolder(run).dataset("a")
    refresh_rows(files, load_standing(files))
    lines = files.journal.read_bytes().splitlines(keepends=True)
    files.journal.write_bytes(lines[0])
    assert "a: 2 answers are gone from its journal since rows were built of them" in (
        export_jsonl(run, tmp_path / "rows.jsonl").notes
    )
    files.journal.unlink()
    with pytest.raises(StorageError, match="its answers are gone, and rows were built of 3"):
        export_jsonl(run, tmp_path / "more.jsonl")
    assert not (tmp_path / "more.jsonl").exists()


def test_what_is_unknown_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="no dataset 'c'; there is a, b"):
        export_jsonl(run, tmp_path / "rows.jsonl", only=("c",))
    with pytest.raises(UsageFault, match="no filter 'odd'; there is truncated"):
        export_jsonl(run, tmp_path / "rows.jsonl", drop=("odd",))
    with pytest.raises(UsageFault, match="holds no run"):
        export_jsonl(tmp_path / "empty", tmp_path / "rows.jsonl")


def test_a_dataset_that_the_recipe_has_no_more_is_written_only_by_name(run: Path, tmp_path: Path) -> None:
    settings = read_settings(RunFolder(run))
    assert settings
    recipe = Recipe.model_validate({"model": "m", "engines": ["embedded"], "datasets": [{"name": "b", "source": "x"}]})
    write_settings(RunFolder(run), merged(settings, recipe))
    report = export_jsonl(run, tmp_path / "rows.jsonl")
    assert report.rows == {"b": 3}
    assert report.notes[0] == "a: is left out, since the recipe has it no more; --only a writes it"
    named = export_jsonl(run, tmp_path / "rows.jsonl", only=("a",))
    assert named.rows == {"a": 3} and not any("left out" in note for note in named.notes)


@pytest.mark.parametrize(
    ("place", "advice"), [("/proc/nope/x.jsonl", "name another place"), ("/proc/1/x.jsonl", "name another place")]
)
def test_a_place_that_cannot_be_written_is_not_called_a_full_disk(run: Path, place: str, advice: str) -> None:
    with pytest.raises(StorageError, match="cannot be written") as caught:
        export_jsonl(run, Path(place))
    assert advice in str(caught.value.advice)
