import json
from pathlib import Path

import msgspec
import pytest

from draftmill.errors import StorageError
from draftmill.journal.reader import encode
from draftmill.ledger.order import conversation_id
from draftmill.ledger.rows import write_rows
from draftmill.ledger.standing import load_standing
from draftmill.records import Completion, Finish, Prompt

IDS = [conversation_id("b", b"%d" % i, 0) for i in range(4)]


def files(folder: Path, answers: dict[int, list[int]]) -> tuple[Path, Path, Path]:
    prompts, journal = folder / "prompts.jsonl", folder / "raw_responses.jsonl"
    prompt_lines = [encode(Prompt(id, n, "short", [], [10 + n, 11])) for n, id in enumerate(IDS)]
    prompts.write_bytes(b"".join(line + b"\n" for line in prompt_lines))
    completions = [
        Completion(IDS[n], n, 0, ids, 2, len(ids), Finish.STOP, 2, 0, 0.1, "e", 64) for n, ids in answers.items()
    ]
    journal.write_bytes(b"".join(encode(c) + b"\n" for c in completions))
    return prompts, journal, folder / "errors.jsonl"


def test_rows_follow_the_positions_and_mask_the_prompt(tmp_path: Path) -> None:
    prompts, journal, errors = files(tmp_path, {3: [7, 2], 0: [8, 9, 2], 2: [5]})
    target = tmp_path / "tokenized_data.jsonl"
    assert write_rows("b", prompts, journal, load_standing(prompts, journal, errors), target) == 3
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [r["position"] for r in rows] == [0, 2, 3]
    assert rows[0]["input_ids"] == [10, 11, 8, 9, 2] and rows[0]["loss_mask"] == [0, 0, 1, 1, 1]
    assert all(len(r["input_ids"]) == len(r["loss_mask"]) for r in rows)


def test_only_the_budget_s_prefix_becomes_rows(tmp_path: Path) -> None:
    prompts, journal, errors = files(tmp_path, {0: [8, 2], 1: [9, 2], 2: [5, 2]})
    standing = load_standing(prompts, journal, errors, budget=3)
    assert write_rows("b", prompts, journal, standing, tmp_path / "rows") == 2


def test_a_completion_of_another_prompt_is_refused(tmp_path: Path) -> None:
    prompts, journal, errors = files(tmp_path, {0: [8, 2]})
    standing = load_standing(prompts, journal, errors)
    line = msgspec.json.decode(prompts.read_bytes().splitlines()[0])
    line["prompt_ids"].append(5)
    prompts.write_bytes(encode(line) + b"\n")
    with pytest.raises(StorageError, match="position 0 does not belong to its prompt"):
        write_rows("b", prompts, journal, standing, tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_a_damaged_prompts_file_names_its_line(tmp_path: Path) -> None:
    prompts, journal, errors = files(tmp_path, {})
    prompts.write_bytes(prompts.read_bytes()[:-30])
    with pytest.raises(StorageError, match=r"prompts.jsonl:4: is not a prompt"):
        load_standing(prompts, journal, errors)
