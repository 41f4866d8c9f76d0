"""Datasets that are tokenized already, through the command: no engine is asked for anything."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftmill import recipe as recipes
from draftmill.journal.folder import RunFolder
from draftmill.ledger.settings import read_settings
from draftmill.ledger.standing import Standing, load_standing
from draftmill.mill import run as mill_run
from draftmill.mill.loop import Limits
from draftmill.mill.observer import Observer
from tests.cli.command import in_process, questions, read_jsonl, write_jsonl, write_recipe
from tests.render.tiny import END, directory

NOBODY = "http://127.0.0.1:9"  # the discard port: nothing listens there


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    rows = [{"input_ids": [n, 7, END], "loss_mask": [0, 1, 1]} for n in range(12)]
    write_jsonl(tmp_path / "a1.jsonl", rows)
    return write(tmp_path, [{"name": "A1", "source": "a1.jsonl", "budget": 10}])


def write(folder: Path, datasets: list[dict[str, Any]]) -> Path:
    model = str(folder / "model") if (folder / "model").exists() else str(directory(folder / "model"))
    return write_recipe(folder / "recipe.yaml", model=model, engines=[NOBODY], datasets=datasets)


def test_a_run_of_tokenized_rows_needs_no_engine(recipe: Path) -> None:
    out = recipe.parent / "run"
    done = in_process("run", recipe, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["datasets"]["A1"]
    assert (figures["passed_through"], figures["not_needed"], figures["rows"], figures["tokens"]) == (5, 7, 5, 10)
    assert figures["adds_up"] and not figures["exhausted"]
    assert "12 positions = 0 counting + 0 surplus + 5 passed through + 0 error + 0 owed + 7 not needed" in done.stderr
    assert "A1: 12 tokenized rows, passed through" in done.stderr
    assert "A1: tokenized: column 'input_ids' is a list of token ids, masked by 'loss_mask'" in done.stderr
    rows = read_jsonl(out / "A1" / "tokenized_data.jsonl")
    assert [row["position"] for row in rows] == [0, 1, 2, 3, 4]
    assert all(row["input_ids"][1:] == [7, END] and row["loss_mask"] == [0, 1, 1] for row in rows)
    more = in_process("run", recipe, "--out", out, "--budget", "16")
    assert more.returncode == 0 and "8 passed through" in more.stdout
    assert read_jsonl(out / "A1" / "tokenized_data.jsonl")[:5] == rows
    missed = in_process("run", recipe, "--out", out, "--budget", "A1=100")
    assert missed.returncode == 0 and "24 of 100, exhausted" in missed.stdout
    assert in_process("run", recipe, "--out", out, "--budget", "16").returncode == 0
    exported = in_process("export", out, "--to", recipe.parent / "rows.jsonl", "--drop", "truncated")
    assert exported.returncode == 0 and "8 rows, 16 supervised tokens" in exported.stdout


def test_what_stands_is_worked_out_once_before_anything_is_started(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def looked(*args: Any, **options: Any) -> Standing:
        looks.append(args)
        return load_standing(*args, **options)

    def servers() -> Any:
        pytest.fail("nothing is owed, so no server is started")

    monkeypatch.setattr(mill_run, "load_standing", looked)
    base = recipe.parent
    with mill_run.open_run(recipes.load(recipe), base, base / "run", observer=Observer()) as opened:
        opened.prepare()
        assert opened.mill(Limits(), servers=servers).owed == 0
    assert len(looks) == 1


def test_beside_a_dataset_that_owes_answers_its_rows_are_written_all_the_same(recipe: Path) -> None:
    out = recipe.parent / "run"
    write_jsonl(recipe.parent / "chat.jsonl", questions(3))
    write(recipe.parent, [{"name": "A1", "source": "a1.jsonl"}, {"name": "chat", "source": "chat.jsonl"}])
    assert in_process("run", recipe, "--out", out, "--only", "A1").returncode == 0
    assert len(read_jsonl(out / "A1" / "tokenized_data.jsonl")) == 12
    both = in_process("run", recipe, "--out", out, "--patience", "0")
    assert both.returncode == 1 and NOBODY in both.stderr and "Traceback" not in both.stderr


def test_a_start_that_is_refused_leaves_the_run_as_it_was(recipe: Path) -> None:
    """Datasets that its recipe has besides are prepared by then; they stand beside the run, left out."""
    out, folder = recipe.parent / "run", recipe.parent
    assert in_process("run", recipe, "--out", out).returncode == 0
    before = recipe.read_text()
    write_jsonl(folder / "chat.jsonl", questions(3))
    chat = {"name": "chat", "source": "chat.jsonl"}
    other = in_process("run", write(folder, [chat]), "--out", out)
    assert other.returncode == 1 and "has answers of A1, and the recipe has none of these datasets" in other.stderr
    assert not (out / "chat").exists()
    both = write(folder, [chat, *json.loads(before)["datasets"]])
    refused = in_process("run", both, "--out", out)
    assert refused.returncode == 1 and (out / "chat" / "prompts.jsonl").exists()
    settings = read_settings(RunFolder(out))
    assert settings and settings.left_out == ["chat"]
    assert "continued with" not in refused.stderr and '"recipe"' not in (out / "events.jsonl").read_text()
    assert in_process("export", out, "--to", folder / "rows.jsonl").stderr == ""
    recipe.write_text(before)
    again = in_process("run", recipe, "--out", out)
    assert again.returncode == 0 and "nothing to do" in again.stdout
    assert "continued with" not in again.stderr
