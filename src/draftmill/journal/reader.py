"""Read the journal of one dataset: what stands in it, line by line, without holding the ids."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from draftmill.errors import StorageError
from draftmill.ids import as_json
from draftmill.records import Completion, Ended, Finish


class Entry(msgspec.Struct, frozen=True):
    """One journal line without its ids: what a resume and the accounting need. ``offset`` is where the line starts."""

    id: str
    position: int
    turn: int
    prompt_tokens: int
    completion_tokens: int
    finish_reason: Finish
    limit: int
    partial: bool = False
    continued: int = 0
    redrawn: bool = False
    more: bool = False
    ended: Ended | None = None
    offset: int = 0


class UnknownLine(msgspec.Struct, frozen=True):
    """A line in a shape that is not known: counted and told, never taken for zero."""

    line: int
    reason: str


_entry = msgspec.json.Decoder(Entry)
_completion = msgspec.json.Decoder(Completion)
encode = msgspec.json.Encoder(enc_hook=as_json).encode


def scan(path: Path) -> Iterator[Entry | UnknownLine]:
    """Every whole line of a journal, in file order. A torn last line is left out: the writer cuts it off.

    One that lacks its newline alone is whole: the writer gives it one, so it must not be owed in the meantime.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for entry, _ in scan_from(file, 0, 1):
            yield entry


def scan_from(file: IO[bytes], offset: int, number: int) -> Iterator[tuple[Entry | UnknownLine, int]]:
    """Every whole line from an offset on, the first of them the ``number``-th, each with the offset of its end.

    A last line without its newline has not ended yet: it comes with the offset of its start.
    """
    file.seek(offset)
    for each, line in enumerate(file, start=number):
        if not line.endswith(b"\n"):
            if is_object(line):
                yield _read(line, offset, each), offset
            return
        yield _read(line, offset, each), (offset := offset + len(line))


def read_line(file: IO[bytes], offset: int, number: int) -> Entry | UnknownLine:
    """The one line at an offset, the ``number``-th of the file."""
    file.seek(offset)
    return _read(file.readline(), offset, number)


def _read(line: bytes, offset: int, number: int) -> Entry | UnknownLine:
    try:
        return msgspec.structs.replace(_entry.decode(line), offset=offset)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return UnknownLine(number, str(error))


def is_object(line: bytes) -> bool:
    """Whether this is a whole line, whatever stands in it, and not a torn one or a block of zeros."""
    try:
        return isinstance(msgspec.json.decode(line, type=dict[str, msgspec.Raw]), dict)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False


def beginning_at(file: IO[bytes], offsets: list[int]) -> list[int]:
    """The beginning of an answer out of the partial lines at these offsets: each says how many ids stand before it."""
    ids: list[int] = []
    for offset in offsets:
        piece = completion_at(file, offset)
        if piece.continued <= len(ids):
            ids = ids[: piece.continued] + piece.output_ids
    return ids


def completion_at(file: IO[bytes], offset: int) -> Completion:
    """The completion whose line starts at ``offset`` of an open journal."""
    file.seek(offset)
    line = file.readline()
    try:
        return _completion.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StorageError(f"{file.name}: no completion at byte {offset}: {error}") from None
