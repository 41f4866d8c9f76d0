"""Rows as they were built before, beside those that come out now: an answer that is there does not change any more.

Both stand in the order of positions and turns, so they are walked through side by side, and a row that comes out as it
was costs one comparison of bytes.
"""

import zlib
from pathlib import Path
from typing import IO

import msgspec

from draftmill.records import Row

_CHUNK = 1 << 20


class _Place(msgspec.Struct, frozen=True):
    position: int
    turn: int


class Built:
    """A file of rows that is walked through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._held = b""
        self._place: tuple[int, int] | None = None
        self._next()

    def find(self, fresh: Row, line: bytes) -> bytes:
        """The line that a row had before, empty where it had none; rows are asked for in their order. ``line`` is how
        it comes out now."""
        wanted = (fresh.position, fresh.turn)
        while self._held and self._held != line:
            self._place = self._place or _place(self._held)
            if self._place > wanted:
                return b""
            if self._place == wanted:
                break
            self._next()
        found = self._held
        self._next()
        return found

    def _next(self) -> None:
        self._held = self._file.readline()
        self._place = None


def parting(before: bytes, fresh: Row) -> int | None:
    """The index of the first id at which a row is another than the line that it had before: their end, where only the
    mask or the finish reason is. None where it is the same row, or that of another prompt."""
    try:
        was = msgspec.json.decode(before, type=Row)
    except (msgspec.DecodeError, msgspec.ValidationError):  # a shape of another version
        return None
    same = (was.input_ids, was.loss_mask, was.finish_reason) == (fresh.input_ids, fresh.loss_mask, fresh.finish_reason)
    if same or was.id != fresh.id:
        return None
    pairs = zip(was.input_ids, fresh.input_ids, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(was.input_ids), len(fresh.input_ids)))


def checksum_of(path: Path) -> int:
    """Of all of a file."""
    found = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found = zlib.crc32(chunk, found)
    return found


def _place(line: bytes) -> tuple[int, int]:
    """Position and turn; those of a line that is no row stand before all others, so that it is passed over."""
    try:
        place = msgspec.json.decode(line, type=_Place)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return -1, -1
    return place.position, place.turn
