"""The indices beside journal and prompts: never another answer than reading the files from end to end."""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from draftmill.errors import StorageError
from draftmill.ids import encode
from draftmill.journal import index as indices
from draftmill.journal.index import entries
from draftmill.journal.prompts import Heads, index_of
from draftmill.journal.reader import Entry, UnknownLine, scan, scan_from
from draftmill.journal.writer import Appender
from draftmill.ledger.order import conversation_id
from draftmill.records import Completion, Finish, Prompt

IDS = [conversation_id("b", b"%d" % i, 0) for i in range(8)]

completions = st.builds(
    Completion,
    id=st.sampled_from([*IDS, "", "no hex", IDS[0].upper(), IDS[0][:30], " " + IDS[0]]),
    position=st.integers(0, 9) | st.sampled_from([-1, 1 << 31, 1 << 32, 1 << 40]),
    turn=st.integers(0, 2),
    output_ids=st.lists(st.integers(0, 70_000), max_size=12),
    prompt_tokens=st.integers(0, 1 << 33),
    completion_tokens=st.integers(0, 12),
    finish_reason=st.sampled_from(Finish),
    matched_stop=st.none() | st.integers(0, 9),
    cached_tokens=st.none(),
    seconds=st.sampled_from([0.0, 0.0, 0.0, 0.5]),  # 0: with the counts of its ids
    engine=st.just("http://e"),
    limit=st.integers(1, 64),
    partial=st.booleans(),
    continued=st.integers(0, 4),
    redrawn=st.booleans(),
).map(lambda c: c if c.seconds else replace(c, completion_tokens=len(c.output_ids), prompt_tokens=0 if c.turn else 3))
HAPPENED = ["append", "tear", "repair", "truncate", "replace", "damage", "edit", "nothing"]
lines = st.lists(
    completions.map(encode) | st.sampled_from([b"", b"{}", b"[1]", b"\xff", b'{"id":3}', b"\0" * 9]), max_size=20
).map(lambda each: [line + b"\n" for line in each])


@settings(deadline=None)
@given(st.data())
def test_through_the_index_stands_what_a_scan_finds(data: st.DataObject) -> None:
    """Start after start, with whatever may have become of the journal and of the index in between."""
    with tempfile.TemporaryDirectory() as folder:
        journal, index = Path(folder, "journal"), Path(folder, "index")
        for _ in range(data.draw(st.integers(1, 4))):
            before = journal.read_bytes() if journal.exists() else b""
            match data.draw(st.sampled_from(HAPPENED)):
                case "append":
                    journal.write_bytes(before + b"".join(data.draw(lines)))
                case "tear":
                    torn = data.draw(completions.map(encode))[: data.draw(st.sampled_from([-7, None]))]
                    journal.write_bytes(before + b"".join(data.draw(lines)) + torn)
                case "repair":
                    Appender(journal).close()
                case "truncate":
                    journal.write_bytes(before[: data.draw(st.integers(0, len(before)))])
                case "replace":
                    journal.write_bytes(b"".join(data.draw(lines)))
                case "damage" if index.exists():
                    damaged = bytearray(index.read_bytes())
                    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
                    index.write_bytes(damaged[: data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))])
                case "edit" if before:
                    edited = bytearray(before)
                    edited[data.draw(st.integers(0, len(before) - 1))] ^= 1
                    journal.write_bytes(edited)
            worth = data.draw(st.sampled_from([0, 1 << 20]))
            assert list(entries(journal, index, worth, 60_000)) == list(scan(journal, 60_000))
            assert list(entries(journal, index, worth, 60_000)) == list(scan(journal, 60_000))


def line(position: int) -> bytes:
    id = conversation_id("b", b"%d" % position, 0)
    return encode(Completion(id, position, 0, [5] * 90, 3, 90, Finish.STOP, 5, None, 0.1, "e", 99)) + b"\n"


def test_what_is_indexed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, index = tmp_path / "journal", tmp_path / "index"
    journal.write_bytes(b"".join(line(n) for n in range(500)))
    whole = list(entries(journal, index, 0))
    assert index.exists() and len(whole) == 500
    starts: list[tuple[int, int]] = []

    def noting(file: IO[bytes], offset: int, number: int, size: int) -> Iterator[tuple[Entry | UnknownLine, int]]:
        starts.append((offset, number))
        return scan_from(file, offset, number, size)

    monkeypatch.setattr(indices, "scan_from", noting)
    size = journal.stat().st_size
    with journal.open("ab") as file:
        file.write(line(500))
    written = index.stat().st_mtime_ns
    assert list(entries(journal, index, 0)) == list(scan(journal))
    assert starts == [(size, 501)] and index.stat().st_mtime_ns == written  # too little to write it again
    with journal.open("ab") as file:
        file.writelines(line(n) for n in range(501, 600))
    assert list(entries(journal, index, 0)) == list(scan(journal))
    assert list(entries(journal, index, 0)) == list(scan(journal))
    assert starts[2] == (journal.stat().st_size, 601)


def test_an_index_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_bytes(line(0))
    assert len(list(entries(journal, tmp_path / "no such folder" / "index", 0))) == 1


def prompts(path: Path, numbers: list[int]) -> None:
    path.write_bytes(b"".join(encode(Prompt(IDS[n], i, "short", [], [n, 7])) + b"\n" for i, n in enumerate(numbers)))


def test_the_index_tells_which_rows_are_passed_through(tmp_path: Path) -> None:
    path, index = tmp_path / "prompts", tmp_path / "index"
    masks = [None, [0, 1, 1], [1]]
    found = [Prompt(IDS[n], n, "short", [], [n] * 3, loss_mask=mask) for n, mask in enumerate(masks)]
    path.write_bytes(b"".join(encode(prompt) + b"\n" for prompt in found))
    made = index_of(path, index, worth=0)
    assert (list(made.tokens), list(made.supervised)) == ([0, 3, 1], [0, 2, 1])
    read = indices.read_prompt_index(path, index)
    assert read and (read.ids, read.offsets, read.tokens, read.supervised) == (
        made.ids,
        made.offsets,
        made.tokens,
        made.supervised,
    )
    assert Heads(path, made.offsets).at(1).loss_mask == [0, 1, 1]
    prompts(path, [0, 1])
    assert not index_of(path, index, worth=0).tokens


def test_prompts_are_found_by_their_index_until_they_are_others(tmp_path: Path) -> None:
    path, index = tmp_path / "prompts", tmp_path / "index"
    prompts(path, [0, 1, 2, 3])
    made = index_of(path, index, worth=0)
    read = indices.read_prompt_index(path, index)
    assert read and (read.ids, read.offsets) == (made.ids, made.offsets)
    assert made.ids.hex() == "".join(IDS[:4])
    cases: list[Sequence[int]] = [made.offsets, made.offsets[:2], []]
    for offsets in cases:
        heads = Heads(path, offsets)
        assert [heads.at(n).prompt_ids[0] for n in (0, 2, 3)] == [0, 2, 3]
        heads.close()
    assert Heads(path, made.offsets).at(3).id == IDS[3]
    index.write_bytes(index.read_bytes()[:-1])
    assert indices.read_prompt_index(path, index) is None
    index_of(path, index, worth=0)
    prompts(path, [0, 1, 3, 2])  # of the same size
    assert index_of(path, index, worth=0).ids.hex() == "".join(IDS[n] for n in (0, 1, 3, 2))
    index_of(path, index, worth=0)
    stamp = path.stat().st_mtime_ns
    with path.open("ab") as file:
        file.write(b"{}\n")
    os.utime(path, ns=(stamp, stamp))
    with pytest.raises(StorageError):
        index_of(path, index, worth=0)


def test_prompts_that_were_sealed_are_refused_once_they_are_others(tmp_path: Path) -> None:
    path, index, seal = tmp_path / "prompts.jsonl", tmp_path / "index", tmp_path / "prompts.sha256"
    prompts(path, [0, 1, 2, 3])
    index_of(path, index, worth=0, seal=seal)
    assert not seal.exists()  # who holds no lock fixes nothing
    index_of(path, index, worth=0, seal=seal, sealing=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert seal.read_text() == f"{digest}  prompts.jsonl\n"
    assert indices.read_prompt_index(path, index)
    whole = path.read_bytes()
    path.write_bytes(whole)  # copied: another time, the same prompts
    assert index_of(path, index, worth=0, seal=seal).ids.hex() == "".join(IDS[:4])
    path.write_bytes(whole.replace(b"[1,7]", b"[1,8]"))
    for sealing in (True, False):
        with pytest.raises(StorageError, match=r"prompts\.jsonl: was changed since the run began"):
            index_of(path, index, worth=0, seal=seal, sealing=sealing)
    path.write_bytes(whole)
    assert index_of(path, index, worth=0, seal=seal)
    seal.write_bytes(b"\xff\xfe")
    index.unlink()
    with pytest.raises(StorageError, match=r"not that in .*prompts\.sha256"):
        index_of(path, index, worth=0, seal=seal)
