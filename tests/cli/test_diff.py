"""``draftmill diff`` as a user runs it."""

import json
from pathlib import Path

import pytest

from draftmill.records import Finish
from tests.cli.command import in_process
from tests.watch.folders import append, begin, completion


def run(path: Path, answers: dict[int, list[int]]) -> Path:
    folder = begin(path, {"name": "d"})
    for n, ids in answers.items():
        append(folder.dataset("d").journal, completion(n, len(ids), output_ids=ids))
    return path


def test_runs_that_differ_and_runs_that_do_not(tmp_path: Path) -> None:
    one, same = run(tmp_path / "a", {0: [5, 6], 1: [7]}), run(tmp_path / "b", {0: [5, 6], 1: [7]})
    done = in_process("diff", one, same)
    assert done.returncode == 0, done.stderr
    assert "nothing differs that can change the rows" in done.stdout
    other = run(tmp_path / "c", {0: [5, 8], 1: [7]})
    done = in_process("diff", one, other, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["differs"]
    assert found["datasets"]["d"]["pairs"]["examples"][0]["at"] == 1
    assert "other answer from id 1 on" in done.stderr and "draftmill compare" in done.stderr


def test_runs_of_other_datasets_have_no_tables_and_name_what_one_has(tmp_path: Path) -> None:
    begin(tmp_path / "a", {"name": "chat"}, engines=["http://h:1", "embedded"])
    begin(tmp_path / "b", {"name": "code"}, engines=[{"kind": "embedded", "slots": 4}])
    done = in_process("diff", tmp_path / "a", tmp_path / "b")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 1 and "only run 1 has chat" in done.stdout
    assert ["engines.embedded.slots", "8", "→", "4"] in lines
    assert ["datasets.chat", "only", "run", "1", "has", "it"] in lines
    assert ["engines.http://h:1", "only", "run", "1", "has", "it"] in lines
    assert "other prompt" not in done.stdout and "longest" not in done.stdout


def test_settings_that_change_no_row(tmp_path: Path) -> None:
    begin(tmp_path / "a", {"name": "d"}), begin(tmp_path / "b", {"name": "d"}, max_error_share=0.5)
    page = in_process("diff", tmp_path / "a", tmp_path / "b").stdout
    assert "the same but for 1 that cannot change the rows" in page


def test_lines_that_cannot_be_read_and_the_limits_of_the_answers_themselves(tmp_path: Path) -> None:
    one, other = run(tmp_path / "a", {0: [5, 6]}), run(tmp_path / "b", {0: [5, 6]})
    append(one / "d" / "raw_responses.jsonl", b'{"id": "torn\n')
    append(other / "d" / "raw_responses.jsonl", completion(1, 3, finish_reason=Finish.LENGTH, limit=64))
    append(other / "d" / "raw_responses.jsonl", completion(2, 3, finish_reason=Finish.LENGTH, limit=128))
    done = in_process("diff", one, other, "--json")
    found = json.loads(done.stdout)
    assert found["cut_at"] == {"d": [None, [64, 128]]} and len(found["unread"]) == 1
    page = in_process("diff", one, other).stdout
    assert "a/d/raw_responses.jsonl:2: cannot be read: " in page and "64–128" in page


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["nowhere", "."], 2, "nowhere: no such folder"),
        ([".", "."], 2, "holds no run"),
        (["run", "run", "--only", "x"], 2, "neither run has prompts of a dataset 'x'"),
    ],
)
def test_what_cannot_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "run", {})
    done = in_process("diff", *args)
    assert (done.returncode, said in " ".join(done.stderr.split())) == (code, True), done.stderr
