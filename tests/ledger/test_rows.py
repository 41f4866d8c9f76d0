import json
from pathlib import Path

import msgspec
import pytest

from draftmill.errors import StorageError
from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.order import conversation_id
from draftmill.ledger.rows import altered, lost, only_grew, refresh_rows, rows, written
from draftmill.ledger.standing import load_standing, unreadable
from draftmill.records import Completion, Failure, Finish, Prompt

IDS = [conversation_id("b", b"%d" % i, 0) for i in range(4)]


def files(path: Path, answers: dict[int, list[int]]) -> DatasetFolder:
    folder = DatasetFolder(path)
    prompt_lines = [encode(Prompt(id, n, "short", [], [10 + n, 11])) for n, id in enumerate(IDS)]
    folder.prompts.write_bytes(b"".join(line + b"\n" for line in prompt_lines))
    completions = [
        Completion(IDS[n], n, 0, ids, 2, len(ids), Finish.STOP, 2, 0, 0.1, "e", 64) for n, ids in answers.items()
    ]
    folder.journal.write_bytes(b"".join(encode(c) + b"\n" for c in completions))
    return folder


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


def answers(folder: DatasetFolder) -> list[list[int]]:
    return [json.loads(line)["input_ids"][2:] for line in folder.rows.read_text().splitlines()]


def test_rows_that_are_no_longer_those_that_were_built_are_built_again(tmp_path: Path) -> None:
    folder = files(tmp_path, {0: [8, 2], 1: [9, 2]})
    refresh_rows(folder, load_standing(folder))
    folder.rows.write_bytes(folder.rows.read_bytes().replace(b"9,2]", b"7,2]"))  # as long as before
    refresh_rows(folder, load_standing(folder))
    assert answers(folder) == [[8, 2], [9, 2]] and not altered(folder)


@pytest.mark.parametrize(
    ("was", "now", "what"),
    [
        (b"[9,2]", b"[7,2]", "its id 2 would be another"),
        (
            b'[9,2],"prompt_tokens":2,"completion_tokens":2',
            b'[9],"prompt_tokens":2,"completion_tokens":1',
            "it would end otherwise",
        ),
        (
            b'[9,2],"prompt_tokens":2,"completion_tokens":2',
            b'[9,2,2],"prompt_tokens":2,"completion_tokens":3',
            "its id 4",
        ),
        (b'"stop"', b'"length"', "it would end otherwise"),
    ],
)
def test_an_answer_that_was_changed_after_its_row_was_built_is_told_and_not_taken_over(
    tmp_path: Path, was: bytes, now: bytes, what: str
) -> None:
    """Its line is a good one, so that nothing else shows it. It is told at every look, until somebody decides."""
    folder = files(tmp_path, {0: [8, 2], 1: [9, 2], 3: [6, 2]})
    refresh_rows(folder, load_standing(folder))
    whole = folder.journal.read_bytes()
    head, line, tail = whole.splitlines(keepends=True)
    folder.journal.write_bytes(head + line.replace(was, now) + tail)
    for _ in range(2):
        assert refresh_rows(folder, load_standing(folder)) == 3
        assert answers(folder) == [[8, 2], [9, 2], [6, 2]]
        told, advice = altered(folder) or ("", "")
        assert told.startswith(f"{folder.journal}:2: was changed after the row of position 1 had been built of it: ")
        assert what in told and "restore that line" in advice and str(folder.rows_stamp) in advice
        assert written(folder) is None
        with pytest.raises(StorageError, match="row of position 1 had been built"):
            list(rows(folder, load_standing(folder)))
    folder.journal.write_bytes(whole)
    assert refresh_rows(folder, load_standing(folder)) == 3 == written(folder) and not altered(folder)

    folder.journal.write_bytes(whole.replace(b"[9,2]", b"[7,2]").replace(b"[6,2]", b"[5,2]"))
    refresh_rows(folder, load_standing(folder))
    assert "one of 2 such rows" in str(altered(folder))
    folder.rows_stamp.unlink()  # as it says: what stands there now is taken
    refresh_rows(folder, load_standing(folder))
    assert answers(folder) == [[8, 2], [7, 2], [5, 2]] and not altered(folder)


def test_what_changes_the_rows_by_right_is_no_change_of_an_answer(tmp_path: Path) -> None:
    """Other budgets and samples, answers and errors that come later, and a line that is taken out and drawn again."""
    folder = files(tmp_path, {0: [8, 2], 2: [5, 2]})
    for asked in ({}, {"budget": 1}, {"samples": 1}, {"budget": 4}, {}):
        refresh_rows(folder, load_standing(folder, **asked))  # type: ignore[arg-type]
        assert not altered(folder), asked
    folder.errors.write_bytes(encode(Failure(IDS[3], 3, 0, "prompt", "too long", 1, None, "f:1")) + b"\n")
    first, last = folder.journal.read_bytes().splitlines(keepends=True)

    def line(position: int, ids: list[int]) -> bytes:
        answer = Completion(IDS[position], position, 0, ids, 2, len(ids), Finish.STOP, 2, 0, 0.1, "e", 64)
        return encode(answer) + b"\n"

    folder.journal.write_bytes(first + last + line(1, [4, 4, 2]) + line(3, [7, 2]))
    assert refresh_rows(folder, load_standing(folder, retry_errors=True)) == 4 and not altered(folder)

    folder.journal.write_bytes(last + line(1, [4, 4, 2]) + line(3, [7, 2]))
    assert not only_grew(folder)
    assert refresh_rows(folder, load_standing(folder)) == 3 and only_grew(folder)  # as a start does
    folder.journal.write_bytes(folder.journal.read_bytes() + line(0, [3, 3, 3, 2]))
    assert refresh_rows(folder, load_standing(folder)) == 4 and not altered(folder)
    assert answers(folder) == [[3, 3, 3, 2], [4, 4, 2], [5, 2], [7, 2]]


def test_a_change_that_no_digest_shows_is_found_and_a_row_of_a_changed_file_is_no_witness(tmp_path: Path) -> None:
    """A digest looks at blocks of a large journal; and rows that were edited themselves prove nothing."""
    folder = files(tmp_path, {0: [8, 2], 1: [9] * 400_000, 2: [5, 2]})
    refresh_rows(folder, load_standing(folder))
    whole = bytearray(folder.journal.read_bytes())
    at = whole.index(b",9", 20_000)  # between two of the blocks
    whole[at + 1 : at + 2] = b"7"
    folder.journal.write_bytes(whole)
    assert only_grew(folder)
    refresh_rows(folder, load_standing(folder))
    assert f"{folder.journal}:2: was changed" in str(altered(folder))

    whole[at + 1 : at + 2] = b"9"
    folder.journal.write_bytes(whole)
    built = bytearray(folder.rows.read_bytes())
    at = built.index(b",9", 20_000)
    built[at + 1 : at + 2] = b"7"
    folder.rows.write_bytes(built)
    refresh_rows(folder, load_standing(folder))
    assert not altered(folder)


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


def test_a_journal_that_lost_answers_is_told_and_one_that_lost_all_is_refused(tmp_path: Path) -> None:
    folder = files(tmp_path, {0: [8, 2], 1: [9, 2]})
    whole = folder.journal.read_bytes()
    folder.journal.write_bytes(whole + b'{"id": "torn')
    refresh_rows(folder, load_standing(folder))
    for left, missing in ((whole, 0), (whole.splitlines(True)[0], 1)):
        folder.journal.write_bytes(left)
        assert lost(folder, load_standing(folder)) == missing
    folder.journal.unlink()
    with pytest.raises(StorageError, match="its answers are gone, and rows were built of 2"):
        lost(folder, load_standing(folder))
    folder.rows_stamp.unlink()
    assert lost(folder, load_standing(folder)) == 0
