"""Read the journal of one dataset: what stands in it, line by line, without holding the ids."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Annotated, Generic, TypeVar

import msgspec

from draftmill.errors import StorageError
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


_CHUNK = 1 << 20
LARGEST = 1 << 32  # above every id, count and limit
Natural = Annotated[int, msgspec.Meta(ge=0, lt=LARGEST)]
Id = TypeVar("Id")


class _Line(msgspec.Struct, Generic[Id], frozen=True):
    """A whole line, so that nothing is taken for an answer whose ids could not become a row."""

    id: str
    position: Natural
    turn: Natural
    prompt_tokens: Natural
    completion_tokens: Natural
    finish_reason: Finish
    limit: Natural
    output_ids: list[Id]
    partial: bool = False
    continued: Natural = 0
    redrawn: bool = False
    more: bool = False
    ended: Ended | None = None
    prompt_ids: list[Id] = []


_completion = msgspec.json.Decoder(Completion)
# its index said otherwise: only a large file that was changed in the middle, to the same size, comes here
_ADVICE = "restore it, or delete raw_responses.index beside it: the line is then told and its prompt owed again"


@lru_cache
def _decoder(vocab_size: int) -> "msgspec.json.Decoder[_Line[int]]":
    kind = Annotated[int, msgspec.Meta(ge=0, lt=vocab_size)]
    return msgspec.json.Decoder(_Line[kind])


def scan(path: Path, vocab_size: int = LARGEST) -> Iterator[Entry | UnknownLine]:
    """Every whole line of a journal, in file order. A torn last line is left out: the writer cuts it off.

    One that lacks its newline alone is whole: the writer gives it one, so it must not be owed in the meantime. One with
    ids that are none of the vocabulary's, or not so many as it says, is no answer.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for entry, _ in scan_from(file, 0, 1, vocab_size):
            yield entry


def scan_from(
    file: IO[bytes], offset: int, number: int, vocab_size: int = LARGEST
) -> Iterator[tuple[Entry | UnknownLine, int]]:
    """Every whole line from an offset on, the first of them the ``number``-th, each with the offset of its end.

    A last line without its newline has not ended yet: it comes with the offset of its start.
    """
    file.seek(offset)
    for each, line in enumerate(file, start=number):
        if not line.endswith(b"\n"):
            if is_object(line):
                yield read_entry(line, offset, each, vocab_size), offset
            return
        yield read_entry(line, offset, each, vocab_size), (offset := offset + len(line))


def read_line(file: IO[bytes], offset: int, number: int, vocab_size: int = LARGEST) -> Entry | UnknownLine:
    """The one line at an offset, the ``number``-th of the file."""
    file.seek(offset)
    return read_entry(file.readline(), offset, number, vocab_size)


def read_entry(line: bytes, offset: int, number: int, vocab_size: int = LARGEST) -> Entry | UnknownLine:
    """What one whole line is, the ``number``-th, which starts at an offset."""
    try:
        read = _decoder(vocab_size).decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return UnknownLine(number, str(error))
    if read.completion_tokens != len(read.output_ids):
        return UnknownLine(number, f"holds {len(read.output_ids)} ids and says {read.completion_tokens}")
    if read.turn and not read.partial and read.prompt_tokens != len(read.prompt_ids):
        return UnknownLine(number, f"holds {len(read.prompt_ids)} prompt ids and says {read.prompt_tokens}")
    return Entry(
        read.id,
        read.position,
        read.turn,
        read.prompt_tokens,
        read.completion_tokens,
        read.finish_reason,
        read.limit,
        read.partial,
        read.continued,
        read.redrawn,
        read.more,
        read.ended,
        offset,
    )


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


def line_at(path: Path, offset: int) -> int:
    """The number of the line that starts at ``offset`` of a file."""
    number = 1
    with path.open("rb") as file:
        while offset > 0 and (chunk := file.read(min(offset, _CHUNK))):
            number, offset = number + chunk.count(b"\n"), offset - len(chunk)
    return number


def completion_at(file: IO[bytes], offset: int) -> Completion:
    """The completion whose line starts at ``offset`` of an open journal."""
    file.seek(offset)
    line = file.readline()
    try:
        found = _completion.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StorageError(f"{file.name}: no completion at byte {offset}: {error}", _ADVICE) from None
    if found.completion_tokens != len(found.output_ids):
        what = f"holds {len(found.output_ids)} ids and says {found.completion_tokens}"
        raise StorageError(f"{file.name}: the completion at byte {offset} {what}", _ADVICE)
    return found
