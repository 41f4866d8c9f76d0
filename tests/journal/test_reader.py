import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from draftmill.journal.reader import Entry, UnknownLine, completion_at, encode, scan
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
