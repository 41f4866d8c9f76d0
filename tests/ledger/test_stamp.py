from pathlib import Path

import pytest

from draftmill.errors import StorageError
from draftmill.ids import encode
from draftmill.ledger.rows import changes, refresh_rows, rows
from draftmill.ledger.stamp import altered, lost, only_grew, written
from draftmill.ledger.standing import load_standing
from draftmill.records import Completion, Failure, Finish
from tests.ledger.answered import IDS, answers, files


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
    assert changes(folder, load_standing(folder)) is None
    folder.journal.write_bytes(head + line.replace(was, now) + tail)
    stands = folder.rows_stamp.read_bytes()
    before = changes(folder, load_standing(folder))
    assert before and before[0].startswith(f"{folder.journal}:2: was changed")
    assert altered(folder) == (
        f"{folder.journal}: was changed after rows had been built of it",
        f"`draftmill verify {folder.path.parent}` tells which answer: restore it",
    )
    assert changes(folder, load_standing(folder), 1) is None, "it is not among those that are looked at"
    assert folder.rows_stamp.read_bytes() == stands
    for _ in range(2):
        assert refresh_rows(folder, load_standing(folder)) == 3
        assert answers(folder) == [[8, 2], [9, 2], [6, 2]]
        told, advice = altered(folder) or ("", "")
        assert told.startswith(f"{folder.journal}:2: was changed after the row of position 1 had been built of it: ")
        assert (told, advice) == before == changes(folder, load_standing(folder))
        assert what in told and "restore that line" in advice and str(folder.rows_stamp) in advice
        assert written(folder) is None
        with pytest.raises(StorageError, match="row of position 1 had been built"):
            list(rows(folder, load_standing(folder)))
    folder.journal.write_bytes(whole)
    assert changes(folder, load_standing(folder)) is None
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
