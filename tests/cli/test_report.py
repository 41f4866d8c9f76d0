"""``draftmill report`` as a user runs it."""

import json
import time
from pathlib import Path

import pytest

from draftmill.journal.folder import RunFolder
from tests.cli.command import draftmill, in_process, questions, write_jsonl, write_recipe
from tests.watch.folders import append, begin, completion, event, failure


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = begin(tmp_path / "run", {"name": "chat", "budget": 30}, {"name": "code"})
    now = time.time()
    append(made.events, event(now - 60, "milling"), event(now - 5, "ended", "run", "interrupted"))
    append(made.dataset("chat").journal, *(completion(n, 10, "chat") for n in range(5)))
    append(made.dataset("code").errors, failure(1, "no", "code"))
    return made


def test_the_page_and_the_same_figures_as_json(folder: RunFolder) -> None:
    before = {p: p.stat().st_mtime_ns for p in folder.path.rglob("*") if p.is_file()}
    ran = draftmill("report", folder.path)
    assert ran.returncode == 0 and ran.stderr == ""
    assert f"{folder.path}/report.html" in ran.stdout and "9 prompts still owed" in ran.stdout
    assert "the course of the run" in ran.stdout  # is not known
    said = json.loads((folder.path / "report.json").read_text())
    assert [d["counted"] for d in said["figures"]["datasets"]] == [30, 0]
    assert (folder.path / "report.html").read_text().startswith("<!doctype html>")
    made = {p for p in folder.path.rglob("*") if p.is_file()} - before.keys()
    assert {p.name for p in made} == {"report.html", "report.json"}
    assert {p: p.stat().st_mtime_ns for p in before} == before  # the run's own files are as they were


def test_out(folder: RunFolder, tmp_path: Path) -> None:
    assert in_process("report", folder.path, "--out", tmp_path / "kimi.html").returncode == 0
    assert (tmp_path / "kimi.html").exists() and (tmp_path / "kimi.json").exists()
    (tmp_path / "place").mkdir()
    assert in_process("report", folder.path, "--out", tmp_path / "place").returncode == 0
    assert (tmp_path / "place" / "report.html").exists()
    assert not (folder.path / "report.html").exists()


def test_what_was_written_for_a_script(folder: RunFolder) -> None:
    ran = in_process("report", folder.path, "--json")
    said = json.loads(ran.stdout)
    assert (said["page"], said["figures"]) == (f"{folder.path}/report.html", f"{folder.path}/report.json")
    assert said["findings"][0]["message"] in ran.stderr and {n["what"] for n in said["not_known"]}


def test_bad_input(folder: RunFolder, tmp_path: Path) -> None:
    gone = in_process("report", tmp_path / "no")
    assert gone.returncode == 2
    same = in_process("report", folder.path, "--out", tmp_path / "x.json")
    assert same.returncode == 2 and not (tmp_path / "x.json").exists()
    nowhere = in_process("report", folder.path, "--out", tmp_path / "no" / "x.html")
    assert nowhere.returncode == 1 and not (tmp_path / "no").exists()
    assert "no/x.json: cannot be written" in nowhere.stderr and "--out" in nowhere.stderr


@pytest.mark.embedded
@pytest.mark.usefixtures("few_heard")
def test_a_real_run_with_its_answers_decoded(tmp_path: Path) -> None:
    asked = write_jsonl(tmp_path / "asked.jsonl", questions(3))
    engine = {"kind": "embedded", "slots": 2, "context": 512}
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model="smollm2",
        engines=[engine],
        lanes={"short": {"max_new_tokens": 12}},
        datasets=[{"name": "chat", "source": str(asked)}],
    )
    assert in_process("run", recipe, "--out", tmp_path / "run").returncode == 0
    assert in_process("report", tmp_path / "run").returncode == 0
    said = json.loads((tmp_path / "run" / "report.json").read_text())
    assert len(said["samples"]) == 2 and said["figures"]["phase"] == "ended"
    assert all("In one line" in s["prompt"] and s["answer"] for s in said["samples"])
    assert "&lt;|im_start|&gt;user" in (tmp_path / "run" / "report.html").read_text()
