"""Two runs side by side: what is found in files whose differences are known."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.compare.diff import Diff, diff
from draftmill.compare.opened import open_run
from draftmill.errors import UsageFault
from draftmill.ids import encode
from draftmill.journal.folder import RunFolder
from draftmill.ledger.settings import read_settings, write_settings
from draftmill.records import Finish, Prompt
from tests.watch.folders import append, begin, completion, failure, prompt_id


def run(path: Path, lengths: dict[int, int], prompts: int = 6, **recipe: Any) -> RunFolder:
    """A run of one dataset whose answers have these lengths, each of its own position's number."""
    dataset = recipe.pop("dataset", {})
    folder = begin(path, {"name": "d", "prompts": prompts, **dataset}, **recipe)
    for n, tokens in lengths.items():
        append(folder.dataset("d").journal, completion(n, tokens, output_ids=[100 + n] * tokens))
    return folder


def between(one: Path, other: Path) -> Diff:
    return diff(open_run(one), open_run(other))


def test_two_equal_runs_differ_in_nothing(tmp_path: Path) -> None:
    one, other = run(tmp_path / "a", {0: 3, 1: 4}), run(tmp_path / "b", {1: 4, 0: 3})
    found = between(one.path, other.path)
    assert not found.differs
    pairs = found.datasets["d"].pairs
    assert (pairs.both, pairs.compared, pairs.other_answer, pairs.divergence) == (6, 2, 0, None)


def test_nothing_is_written(tmp_path: Path) -> None:
    one, other = run(tmp_path / "a", {0: 3}, prompts=4000), run(tmp_path / "b", {0: 3}, prompts=4000)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    between(one.path, other.path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files


def test_answers_are_paired_by_id_whatever_their_position(tmp_path: Path) -> None:
    one, other = run(tmp_path / "a", {0: 5, 1: 5, 2: 5}), run(tmp_path / "b", {}, prompts=3)
    files = other.dataset("d")
    lines = [Prompt(prompt_id(2 - n), n, "short", [], [1, 2, 3]) for n in range(3)]
    files.prompts.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    answers = {2: [102] * 5, 1: [101, 101, 9, 101, 101], 0: [100] * 3}
    for n, ids in answers.items():
        append(files.journal, completion(n, len(ids), position=2 - n, output_ids=ids))
    found = between(one.path, other.path).datasets["d"]
    pairs = found.pairs
    assert (pairs.both, pairs.only_one, pairs.only_other) == (3, 3, 0)
    assert (pairs.compared, pairs.other_answer) == (3, 2)
    assert {(e.id, e.at) for e in pairs.examples} == {(prompt_id(1), 2), (prompt_id(0), 3)}
    assert found.paired is not None and found.paired.conversations == 3
    assert found.paired.mean == pytest.approx(-2 / 3)
    assert found.paired.low < -2 / 3 < found.paired.high


def test_prompts_of_other_ids_are_counted_and_their_answers_left_alone(tmp_path: Path) -> None:
    one, other = run(tmp_path / "a", {0: 5, 1: 5}), run(tmp_path / "b", {0: 4, 1: 5})
    prompts = other.dataset("d").prompts
    lines = prompts.read_bytes().splitlines()
    changed = msgspec.structs.replace(msgspec.json.decode(lines[0], type=Prompt), prompt_ids=[1, 9, 3])
    prompts.write_bytes(b"\n".join([encode(changed), *lines[1:], b""]))
    found = between(one.path, other.path)
    pairs = found.datasets["d"].pairs
    assert found.differs and (pairs.other_prompt, pairs.compared, pairs.other_answer) == (1, 1, 0)
    assert pairs.examples[0].at is None


def test_later_turns_are_compared_only_behind_equal_answers(tmp_path: Path) -> None:
    one, other = run(tmp_path / "a", {}), run(tmp_path / "b", {})
    for folder, first in ((one, 7), (other, 8)):
        journal = folder.dataset("d").journal
        for n, id in ((0, first), (1, 7)):
            append(journal, completion(n, 1, output_ids=[id], more=True))
            append(journal, completion(n, 1, turn=1, output_ids=[5], prompt_ids=[1, 2, id], prompt_tokens=3))
    pairs = between(one.path, other.path).datasets["d"].pairs
    assert (pairs.compared, pairs.other_answer, pairs.other_history) == (3, 1, 1)


def test_settings_that_decide_the_rows_are_told_from_those_that_do_not(tmp_path: Path) -> None:
    one = run(tmp_path / "a", {0: 3})
    same = run(tmp_path / "b", {0: 3}, engines=["http://other:1"], order="one-by-one", max_error_share=0.5)
    found = between(one.path, same.path)
    assert not found.differs
    keys = {change.key for change in found.settings}
    assert {"order", "max_error_share"} < keys and not any(change.matters for change in found.settings)
    other = run(tmp_path / "c", {0: 3}, sampling={"temperature": 0.5}, dataset={"budget": 3})
    found = between(one.path, other.path)
    assert [(c.key, c.one, c.other) for c in found.settings if c.matters] == [
        ("datasets.d.budget", None, 3),
        ("sampling.temperature", 1.0, 0.5),
    ]
    assert found.differs and found.datasets["d"].reached == (None, True)


def test_digests_and_datasets_of_one_run_alone(tmp_path: Path) -> None:
    one, other = run(tmp_path / "a", {0: 3}), begin(tmp_path / "b", {"name": "d"}, {"name": "e"})
    settings = read_settings(other)
    assert settings
    write_settings(other, msgspec.structs.replace(settings, template_sha256="x", files={"config.json": "y"}))
    found = between(one.path, other.path)
    assert [(c.key, c.one, c.other) for c in found.digests] == [
        ("files.config.json", None, "y"),
        ("template_sha256", "", "x"),
    ]
    assert found.only == ([], ["e"]) and list(found.datasets) == ["d"]


def test_shares_of_cut_and_failed_answers(tmp_path: Path) -> None:
    one, other = run(tmp_path / "a", {0: 3, 1: 3}), run(tmp_path / "b", {})
    files = other.dataset("d")
    append(files.journal, completion(0, 3, output_ids=[100] * 3, finish_reason=Finish.LENGTH, redrawn=True))
    append(files.errors, failure(1))
    found = between(one.path, other.path).datasets["d"]
    assert found.shares == {"truncated": (0.0, 1.0), "redrawn": (0.0, 1.0), "error prompt": (0.0, 1 / 6)}
    assert [tally.error for tally in found.states] == [0, 1]
    assert found.lengths[1] is not None and found.lengths[1].answers == 1


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="holds no run"):
        open_run(tmp_path)
