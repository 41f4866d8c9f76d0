"""Nothing is lost, repeated or wrong, whatever dies. ``benchmarks/bench_chaos.py`` plays 200 rounds of this."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.mill.chaos import processes, virtual
from tests.mill.chaos.check import Asked, Found, drawn_again, incomplete, look, promise_broken, tally_differs

Lines = list[dict[str, Any]]


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("kind", virtual.KINDS)
def test_a_round_in_virtual_time(kind: str, number: int, tmp_path: Path) -> None:
    outcome = virtual.play(kind, f"ci/{kind}/{number}", tmp_path)
    assert outcome.violations == []
    assert outcome.struck.total() and outcome.starts["calm"] and outcome.figures["answers"]


def test_a_round_with_real_processes(tmp_path: Path) -> None:
    outcome = processes.play("ci/0", tmp_path, ("kill", "stop"), prompts=10)
    assert outcome.violations == []
    assert outcome.struck.total() and outcome.starts.total() == 3 and outcome.figures["answers"]


# that the checker can fail: a finished run, broken in one place


@dataclass
class Finished:
    """A run that nothing is wrong with, the first dataset of which is broken."""

    path: Path
    asked: Asked
    before: Found
    promised: dict[Path, bytes]

    def violations(self) -> list[str]:
        found = look(self.asked)
        told = self.before.tally
        return [
            *promise_broken(self.promised),
            *incomplete(self.asked, found),
            *found.violations,
            *drawn_again(self.known(), found),
            *tally_differs(found, told),
        ]

    def known(self) -> Found:
        """The beginnings from which answers were continued, as a start found them."""
        lines = {p: line for p, line in self.before.whole.items() if line.get("continued")}
        return Found(begun={p: line["output_ids"][: line["continued"]] for p, line in lines.items()})

    def edit(self, name: str, change: Callable[[Lines], Lines]) -> None:
        path = self.asked.folder / name
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        path.write_bytes(b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in change(lines)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A round with everything in it: answers whole and continued, their beginnings, and errors."""
    path = tmp_path_factory.mktemp("whole")
    played = virtual.Round("guilty prompts", random.Random("breakages/12"), path)
    assert played.play().violations == []
    return path


@pytest.fixture
def finished(whole: Path, tmp_path: Path) -> Finished:
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    played = virtual.Round("guilty prompts", random.Random("breakages/12"), tmp_path / "asked")
    asked = replace(played.asked[0], folder=path / "d0")
    files = {file: file.read_bytes() for file in (path / "d0").glob("*s.jsonl") if file.name != "prompts.jsonl"}
    return Finished(path, asked, look(asked), files)


def is_whole(line: dict[str, Any]) -> bool:
    return not line.get("partial")


def is_continued(line: dict[str, Any]) -> bool:
    return is_whole(line) and bool(line.get("continued"))


def is_beginning(line: dict[str, Any]) -> bool:
    return bool(line.get("partial")) and len(line["output_ids"]) > 3


def first(lines: Lines, which: Callable[[dict[str, Any]], bool] = is_whole) -> dict[str, Any]:
    return next(line for line in lines if which(line))


def with_one(lines: Lines, which: Callable[[dict[str, Any]], bool], **changed: Any) -> Lines:
    line = first(lines, which)
    return [{**each, **changed} if each is line else each for each in lines]


def with_another_id(lines: Lines, which: Callable[[dict[str, Any]], bool]) -> Lines:
    ids = list(first(lines, which)["output_ids"])
    ids[2] += 1 if ids[2] < 900 else -1
    return with_one(lines, which, output_ids=ids)


def cut_short(lines: Lines) -> Lines:
    ids = first(lines)["output_ids"][:-2]
    return with_one(lines, is_whole, output_ids=ids, completion_tokens=len(ids), finish_reason="length")


JOURNAL, ERRORS, ROWS = "raw_responses.jsonl", "errors.jsonl", "tokenized_data.jsonl"
BREAKAGES: list[tuple[str, Callable[[Lines], Lines], str]] = [
    (JOURNAL, lambda lines: [line for line in lines if line is not first(lines)], "are gone or others"),
    (JOURNAL, lambda lines: [line for line in lines if line is not first(lines)], "1 positions are owed at the end"),
    (JOURNAL, lambda lines: [*lines, first(lines)], "stands there twice"),
    (JOURNAL, lambda lines: [*lines, first(lines, is_beginning)], "goes on behind its whole answer"),
    (JOURNAL, lambda lines: with_another_id(lines, is_whole), "ids are not the answer of"),
    (JOURNAL, lambda lines: with_another_id(lines, is_beginning), "is wrong: the id at 2"),
    (JOURNAL, lambda lines: with_another_id(lines, is_continued), "its answer is not the one that had begun"),
    (JOURNAL, cut_short, "ids are not the answer of"),
    (JOURNAL, lambda lines: with_one(lines, is_whole, limit=7), "its limit was 7"),
    (JOURNAL, lambda lines: with_one(lines, is_whole, id="0" * 32), "belongs to no prompt"),
    (JOURNAL, lambda lines: with_one(lines, is_whole, prompt_tokens=1), "its counts are not those of its ids"),
    (JOURNAL, lambda lines: with_one(lines, is_beginning, continued=900), "continues from 900 ids"),
    (JOURNAL, lambda lines: with_one(lines, is_continued, continued=0), "ids were known, 0 continued"),
    (ERRORS, lambda lines: lines[1:], "has no error row"),
    (ERRORS, lambda lines: [*lines, lines[0]], "two error rows"),
    (ERRORS, lambda lines: with_one(lines, is_whole, kind="prompt"), "is blamed and not guilty"),
    (ROWS, lambda lines: lines[1:], "they part at row 0"),
    (ROWS, lambda lines: [*lines[:-1], {**lines[-1], "loss_mask": [1] * len(lines[-1]["input_ids"])}], "they part"),
]


@pytest.mark.parametrize(("name", "breakage", "told"), BREAKAGES, ids=[told for _, _, told in BREAKAGES])
def test_the_checker_finds(finished: Finished, name: str, breakage: Callable[[Lines], Lines], told: str) -> None:
    assert finished.violations() == []
    finished.edit(name, breakage)
    assert [violation for violation in finished.violations() if told in violation]


def test_the_checker_finds_a_lost_state(finished: Finished) -> None:
    told = finished.before.tally
    assert tally_differs(finished.before, told) == []
    lost = told | {"counting": told["counting"] - 1}
    assert [w for w in tally_differs(finished.before, lost) if "the states do not add up" in w]
    moved = lost | {"surplus": told["surplus"] + 1}
    assert [w for w in tally_differs(finished.before, moved) if w.startswith("surplus: told")]
