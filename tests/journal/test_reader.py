import re
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.errors import StorageError
from draftmill.ids import encode
from draftmill.journal.reader import Entry, UnknownLine, completion_at, scan
from draftmill.journal.writer import Appender
from draftmill.records import Completion, Finish


def completion(position: int) -> Completion:
    return Completion(
        id=f"id{position}",
        position=position,
        turn=0,
        output_ids=[5, 6, 2],
        prompt_tokens=7,
        completion_tokens=3,
        finish_reason=Finish.STOP,
        matched_stop=2,
        cached_tokens=None,
        seconds=0.5,
        engine="embedded",
        limit=64,
    )


def test_entries_carry_the_counts_and_lead_back_to_their_line(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    path.write_bytes(b"".join(encode(completion(p)) + b"\n" for p in (3, 0)))
    entries = [e for e in scan(path) if isinstance(e, Entry)]
    assert [(e.id, e.position, e.completion_tokens) for e in entries] == [("id3", 3, 3), ("id0", 0, 3)]
    with path.open("rb") as file:
        assert completion_at(file, entries[1].offset) == completion(0)


def test_unknown_shapes_are_counted_and_a_torn_tail_is_left_to_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    path.write_bytes(encode(completion(0)) + b'\n{"choices":[]}\nnonsense\n' + encode(completion(1))[:-5])
    found = list(scan(path))
    assert [type(e) for e in found] == [Entry, UnknownLine, UnknownLine]
    assert [e.line for e in found if isinstance(e, UnknownLine)] == [2, 3]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"output_ids": [5, None, 2]}, r"Expected `int`, got `null` - at `\$.output_ids\[1\]`"),
        ({"output_ids": [5, 6.5, 2]}, r"at `\$.output_ids\[1\]`"),
        ({"output_ids": "5, 6, 2"}, r"at `\$.output_ids`"),
        ({"output_ids": [5, -6, 2]}, r"Expected `int` >= 0 - at `\$.output_ids\[1\]`"),
        ({"output_ids": [5, 6, 1000]}, r"at `\$.output_ids\[2\]`"),
        ({"output_ids": [5, 6, 10**30]}, r"at `\$.output_ids\[2\]`"),
        ({"output_ids": [5, 2]}, "holds 2 ids and says 3"),
        ({"completion_tokens": -3, "output_ids": []}, r"at `\$.completion_tokens`"),
        ({"turn": 1, "prompt_ids": [1] * 6}, "holds 6 prompt ids and says 7"),
        ({"turn": 1, "prompt_ids": [1000] * 7}, r"at `\$.prompt_ids\[0\]`"),
        ({"prompt_tokens": 1 << 40}, r"at `\$.prompt_tokens`"),
        ({"continued": -1}, r"at `\$.continued`"),
    ],
)
def test_a_line_whose_ids_could_not_become_a_row_is_no_answer(
    changed: dict[str, object], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "raw_responses.jsonl"
    damaged = msgspec.to_builtins(completion(1)) | changed
    path.write_bytes(encode(completion(0)) + b"\n" + encode(damaged) + b"\n" + encode(completion(2)) + b"\n")
    first, unknown, last = scan(path, 1000)
    assert isinstance(first, Entry) and isinstance(last, Entry)
    assert isinstance(unknown, UnknownLine) and unknown.line == 2
    assert re.search(reason, unknown.reason), unknown.reason


def test_a_completion_that_was_damaged_behind_its_index_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    path.write_bytes(encode(completion(0)).replace(b"[5,6,2]", b"[5,6.2]") + b"\n")
    with path.open("rb") as file, pytest.raises(StorageError, match="no completion at byte 0") as caught:
        completion_at(file, 0)
    assert "raw_responses.index" in caught.value.advice
    path.write_bytes(encode(completion(0)).replace(b"[5,6,2]", b"[5,612]") + b"\n")
    with path.open("rb") as file, pytest.raises(StorageError, match="at byte 0 holds 2 ids and says 3"):
        completion_at(file, 0)


@given(st.integers(0, 3), st.data())
def test_what_is_read_is_what_the_writer_s_repair_keeps(count: int, data: st.DataObject) -> None:
    """A start reads first and repairs then: what it takes for owed must not stand there afterwards."""
    text = b"".join(encode(completion(p)) + b"\n" for p in range(count + 1))
    torn_at = data.draw(st.integers(0, len(text)) | st.just(len(text) - 1))
    tail = data.draw(st.sampled_from([b"", b"\0" * 7, b"{}", b"\xff\n", b"\n\0\n"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "raw_responses.jsonl")
        path.write_bytes(text[:torn_at] + tail)
        before = [entry for entry in scan(path) if isinstance(entry, Entry)]
        Appender(path).close()
        assert [entry for entry in scan(path) if isinstance(entry, Entry)] == before


def test_a_last_line_that_lacks_its_newline_alone_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "raw_responses.jsonl"
    path.write_bytes(encode(completion(0)) + b"\n" + encode(completion(1)))
    assert [e.position for e in scan(path) if isinstance(e, Entry)] == [0, 1]


def test_a_journal_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert list(scan(tmp_path / "none.jsonl")) == []
