import json
from pathlib import Path

import msgspec
import pytest

from draftmill.errors import StorageError
from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.rows import refresh_rows
from draftmill.ledger.stamp import altered
from draftmill.ledger.standing import load_standing, unreadable
from draftmill.records import Completion, Failure, Finish, Prompt
from tests.ledger.answered import IDS, answers, files


def test_rows_follow_the_positions_and_mask_the_prompt(tmp_path: Path) -> None:
    folder = files(tmp_path, {3: [7, 2], 0: [8, 9, 2], 2: [5]})
    assert refresh_rows(folder, load_standing(folder)) == 3
    rows = [json.loads(line) for line in folder.rows.read_text().splitlines()]
    assert [r["position"] for r in rows] == [0, 2, 3]
    assert rows[0]["input_ids"] == [10, 11, 8, 9, 2] and rows[0]["loss_mask"] == [0, 0, 1, 1, 1]
    assert all(len(r["input_ids"]) == len(r["loss_mask"]) for r in rows)


def test_rows_are_built_again_only_where_something_changed(tmp_path: Path) -> None:
    folder = files(tmp_path, {0: [8, 2], 1: [9, 2], 2: [5, 2]})
    assert refresh_rows(folder, load_standing(folder)) == 3
    built = folder.rows.stat().st_ino
    assert refresh_rows(folder, load_standing(folder)) == 3
    assert folder.rows.stat().st_ino == built
    assert refresh_rows(folder, load_standing(folder, budget=3)) == 2
    assert len(folder.rows.read_text().splitlines()) == 2
    folder.rows.unlink()
    assert refresh_rows(folder, load_standing(folder, budget=3)) == 2 and folder.rows.exists()


def test_rows_that_are_no_longer_those_that_were_built_are_built_again(tmp_path: Path) -> None:
    folder = files(tmp_path, {0: [8, 2], 1: [9, 2]})
    refresh_rows(folder, load_standing(folder))
    folder.rows.write_bytes(folder.rows.read_bytes().replace(b"9,2]", b"7,2]"))  # as long as before
    refresh_rows(folder, load_standing(folder))
    assert answers(folder) == [[8, 2], [9, 2]] and not altered(folder)


def test_a_completion_of_another_prompt_is_refused(tmp_path: Path) -> None:
    folder = files(tmp_path, {0: [8, 2]})
    standing = load_standing(folder)
    line = msgspec.json.decode(folder.prompts.read_bytes().splitlines()[0])
    line["prompt_ids"].append(5)
    folder.prompts.write_bytes(encode(line) + b"\n")
    with pytest.raises(StorageError, match="position 0 does not belong to its prompt"):
        refresh_rows(folder, standing)
    assert not folder.rows.exists()


def test_rows_that_are_passed_through_stand_in_their_place_as_they_are(tmp_path: Path) -> None:
    folder = files(tmp_path, {1: [8, 2], 3: [7, 2]})
    lines = folder.prompts.read_bytes().splitlines()
    for n, mask in ((0, [0, 1, 0, 1]), (2, [1])):
        lines[n] = encode(Prompt(IDS[n], n, "short", [], [20 + n] * len(mask), loss_mask=mask))
    folder.prompts.write_bytes(b"".join(line + b"\n" for line in lines))
    assert refresh_rows(folder, load_standing(folder)) == 4
    rows = [json.loads(line) for line in folder.rows.read_text().splitlines()]
    assert [(r["position"], r["input_ids"], r["loss_mask"]) for r in rows] == [
        (0, [20, 20, 20, 20], [0, 1, 0, 1]),
        (1, [11, 11, 8, 2], [0, 0, 1, 1]),
        (2, [22], [1]),
        (3, [13, 11, 7, 2], [0, 0, 1, 1]),
    ]
    assert [(r["prompt_tokens"], r["completion_tokens"], r["finish_reason"]) for r in rows] == [
        (2, 2, None),
        (2, 2, "stop"),
        (0, 1, None),
        (2, 2, "stop"),
    ]
    assert refresh_rows(folder, load_standing(folder, budget=3)) == 2


def test_no_journal_is_needed_where_everything_is_passed_through(tmp_path: Path) -> None:
    folder = DatasetFolder(tmp_path)
    prompts = [Prompt(id, n, "short", [], [n, 9], loss_mask=[0, 1]) for n, id in enumerate(IDS)]
    folder.prompts.write_bytes(b"".join(encode(p) + b"\n" for p in prompts))
    standing = load_standing(folder)
    assert refresh_rows(folder, standing) == 4 and standing.tally().passed_through == 4
    folder.prompts.write_bytes(folder.prompts.read_bytes().replace(b"[0,1]", b"[1]"))
    folder.rows.unlink()
    with pytest.raises(StorageError, match="the mask of position 0 does not fit its ids"):
        refresh_rows(folder, load_standing(folder))


def test_a_damaged_prompts_file_names_its_line(tmp_path: Path) -> None:
    folder = files(tmp_path, {})
    folder.prompts.write_bytes(folder.prompts.read_bytes()[:-30])
    with pytest.raises(StorageError, match=r"prompts.jsonl:4: is not a prompt"):
        load_standing(folder)


def test_a_damaged_line_is_told_with_its_place_and_its_position_is_owed_again(tmp_path: Path) -> None:
    folder = files(tmp_path, {0: [8, 2], 1: [9, 7, 2], 3: [6, 2]})
    folder.journal.write_bytes(folder.journal.read_bytes().replace(b"[9,7,2]", b"[9,null,2]"))
    line = msgspec.json.encode(Failure(IDS[2], 2, 0, "prompt", "too long", 1, None, "f:1"))
    folder.errors.write_bytes(line + b'\n{"id": 3}\n[]\n' + line[:-9])  # the torn tail is the writer's
    standing = load_standing(folder, vocab_size=100)
    tally = standing.tally()
    assert (tally.counting, tally.error, tally.owed) == (2, 1, 1) and tally.adds_up() and standing.is_owed(1)
    assert refresh_rows(folder, standing) == 2
    assert unreadable(folder, standing) == [
        f"{folder.journal}:2: cannot be read: Expected `int`, got `null` - at `$.output_ids[1]`; its prompt is left "
        "out, and owed unless answered in another line",
        f"{folder.errors}:2: cannot be read: Expected `str`, got `int` - at `$.id`; one of 2 such lines; their prompts "
        "are left out, and owed unless answered in another line",
    ]
    again = Completion(IDS[1], 1, 0, [9, 7, 2], 2, 3, Finish.STOP, 2, 0, 1.0, "e", 64)
    folder.journal.write_bytes(folder.journal.read_bytes() + msgspec.json.encode(again) + b"\n")
    told = unreadable(folder, load_standing(folder, vocab_size=100))
    assert len(told) == 2 and all(line.endswith("settled without it") for line in told), told
    assert load_standing(folder, vocab_size=8).tally().owed == 2  # the id 8 lies outside such a vocabulary


def test_a_prompt_that_was_changed_after_the_run_began_is_refused(tmp_path: Path) -> None:
    """Of the same length, so that no count shows it: the row would hold what the model never saw."""
    folder = files(tmp_path, {0: [8, 2]})
    load_standing(folder, seal=True)
    folder.prompts.write_bytes(folder.prompts.read_bytes().replace(b"[10,11]", b"[10,12]"))
    with pytest.raises(StorageError, match=r"prompts\.jsonl: was changed since the run began"):
        load_standing(folder)


def test_a_rows_file_that_lost_its_tail_is_built_again(tmp_path: Path) -> None:
    folder = files(tmp_path, {0: [8, 2], 1: [9, 2]})
    refresh_rows(folder, load_standing(folder))
    whole = folder.rows.read_bytes()
    folder.rows.write_bytes(whole[:-9])
    assert refresh_rows(folder, load_standing(folder)) == 2
    assert folder.rows.read_bytes() == whole


def test_a_prompts_file_that_lost_whole_lines_is_refused(tmp_path: Path) -> None:
    folder = files(tmp_path, {0: [8, 2]})
    folder.prepared.write_text('{"positions": 4}')
    assert load_standing(folder).positions == 4
    folder.prompts.write_bytes(b"".join(folder.prompts.read_bytes().splitlines(keepends=True)[:3]))
    with pytest.raises(StorageError, match=r"prompts\.jsonl: holds 3 prompts, 4 were prepared"):
        load_standing(folder)
