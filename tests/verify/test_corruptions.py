"""Bar: faults as they happen in the field, in one row of twenty of a real run, are all found, each by the check that is
named for it; the run as it came is without an error."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from draftmill.ids import encode
from draftmill.render import tokenizer as tokenizers
from draftmill.render.tokenizer import Tokenizer
from draftmill.verify import judge
from draftmill.verify.checks import Severity
from draftmill.verify.judge import verify_file, verify_run
from draftmill.verify.verification import Verification
from tests.verify.corruptions import CORRUPTIONS, Corruption, bare, corrupted, cut_to, fired, load, save
from tests.verify.recorded import rebuilt

FEW = 2  # rows of each dataset that are hit


class Clean(NamedTuple):
    """A run without a fault, the verification of it, and of its rows alone."""

    run: Path
    tokenizer: Tokenizer
    verified: Verification
    alone: Verification


@pytest.fixture(scope="session")
def clean(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Clean:
    """Some 60 answers of up to 40 tokens in two datasets; the last ones do not count."""
    folder = tmp_path_factory.mktemp("verified")
    run = rebuilt(folder, str(tokenizer_folder))
    cut_to(run, 0.85)
    tokenizer = tokenizers.load(str(tokenizer_folder))
    rows = bare(run, folder / "rows.jsonl")
    verified = verify_run(run, workers=1)
    return Clean(run, tokenizer, verified, verify_file(rows, model=str(tokenizer_folder), workers=1))


def test_a_run_as_it_came_is_without_an_error(clean: Clean) -> None:
    errors = [r for r in clean.verified.checks if r.severity is Severity.ERROR]
    assert [r.name for r in errors if r.count] == []
    assert len(errors) > 20
    assert sum(clean.verified.rows.values()) >= 50
    assert [r.name for r in clean.alone.checks if r.severity is Severity.ERROR and r.above] == []


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda c: c.name)
def test_a_fault_is_found_by_the_check_that_is_named_for_it(
    clean: Clean, corruption: Corruption, tokenizer_folder: Path, tmp_path: Path
) -> None:
    if corruption.fires == {"foreign-ids"}:
        pytest.skip("so small a run says little of what is usual: test_texts has it")
    run = corrupted(clean.run, tmp_path / "run", corruption, clean.tokenizer)
    found = fired(verify_run(run, workers=1), clean.verified, FEW)
    assert (corruption.fires - found, found - corruption.fires - corruption.also) == (set(), set())
    rows = bare(run, tmp_path / "rows.jsonl")
    found = fired(verify_file(rows, model=str(tokenizer_folder), workers=1), clean.alone, FEW)
    assert (corruption.bare - found, found - corruption.bare - corruption.also) == (set(), set())


def test_an_id_in_the_journal_that_is_not_its_prompts_is_told(
    clean: Clean, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was edited in place, so that the index still counts its line."""
    shutil.copytree(clean.run, tmp_path / "run")
    journal, counted = tmp_path / "run" / "facts" / "raw_responses.jsonl", judge.examined

    def edited(*args: Any) -> Any:  # the standing is known by now
        lines = load(journal)
        first = next(line for line in lines if line["position"] == 0)
        first["id"] = first["id"][::-1]
        save(journal, lines)
        return counted(*args)

    save(journal, load(journal))  # in the spelling that it is edited in
    monkeypatch.setattr(judge, "examined", edited)
    found = {r.name: r for r in verify_run(tmp_path / "run", workers=1).checks}
    assert (found["journal-line"].count, found["journal-line"].above) == (1, True)
    assert "position 0: its id in the journal" in found["journal-line"].examples[0].remark


@pytest.mark.parametrize("changed", ["journal", "row", "both"])
def test_an_answer_that_differs_is_told_with_the_journals_line_and_which_of_the_two_was_changed(
    clean: Clean, tmp_path: Path, changed: str
) -> None:
    run, d = tmp_path / "run", tmp_path / "run" / "facts"
    shutil.copytree(clean.run, run)
    row = next(r for r in load(d / "tokenized_data.jsonl") if r["completion_tokens"] > 4)
    lines = (d / "raw_responses.jsonl").read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines, start=1) if json.loads(line)["position"] == row["position"])
    if changed != "row":
        line = json.loads(lines[number - 1])
        line["output_ids"][1] = 1000 if line["output_ids"][1] != 1000 else 1001
        lines[number - 1] = encode(line) + b"\n"
        (d / "raw_responses.jsonl").write_bytes(b"".join(lines))
    if changed != "journal":
        rows = load(d / "tokenized_data.jsonl")
        own = next(r for r in rows if r["position"] == row["position"])
        own["input_ids"][row["prompt_tokens"] + 1] = 1002
        save(d / "tokenized_data.jsonl", rows)
    found = {r.name: r for r in verify_run(run, workers=1).checks}["row-answer"]
    journal, at = f"{d / 'raw_responses.jsonl'}:{number}", row["prompt_tokens"] + 1
    named = f"{journal} has another answer for position {row['position']}, turn 0, from id {at} of the row on"
    who = {"journal": "the journal was changed", "row": "the row was changed", "both": "is not known"}[changed]
    (example,) = found.examples
    assert example.remark.startswith(named) and example.remark.endswith(who)
    assert found.advice.startswith("delete tokenized_data.jsonl" if changed == "row" else f"restore {journal}")
    assert ("delete" in found.advice) == (changed != "journal")


def test_rows_that_a_torn_line_of_the_journal_takes_along_are_not_blamed_first(clean: Clean, tmp_path: Path) -> None:
    journal = tmp_path / "run" / "facts" / "raw_responses.jsonl"
    shutil.copytree(clean.run, tmp_path / "run")
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if json.loads(line)["position"] == 0)
    journal.write_bytes(b"".join([*lines[:at], lines[at][:40] + b"\n", *lines[at + 1 :]]))
    found = {r.name: r for r in verify_run(tmp_path / "run", workers=1).checks}
    assert found["beyond-cut"].advice.startswith(f"{journal}:{at + 1} cannot be read: restore that")


def test_there_are_enough_of_them() -> None:
    assert len(CORRUPTIONS) >= 25
