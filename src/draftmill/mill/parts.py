"""A large file that is made part by part, so that a kill costs the parts that were under way and no more.

Beside the file stands its log: a line for each part with length and checksum, written after the part itself. What is
found at the next start is believed as far as both agree, and only if it was made for the same ``key``; the rest is cut
off and made again. Nothing is synced: a checksum tells what a power cut left of it.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import BinaryIO

_LINE = Struct("<QIII")  # bytes of the part, its CRC-32, bytes of the note, and the CRC-32 of all that and the note
_SUMMED = Struct("<QII")
_COPY = 1 << 20


class Parts:
    """The parts of a file at ``path``; read those that are there with ``found`` before any is added."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path = path
        self.size = 0
        self._key = key
        self._log_path = path.with_name(f"{path.name}.log")
        self._data: BinaryIO = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0)
        self._log: BinaryIO = os.fdopen(os.open(self._log_path, os.O_RDWR | os.O_CREAT, 0o644), "r+b")

    def found(self) -> Iterator[bytes]:
        """The note of every part that is whole. What follows the last of them is cut off."""
        head = _entry(0, 0, self._key)
        end, size = len(head), 0
        self._data.seek(0)
        if self._log.read(len(head)) == head:
            while (line := self._line()) is not None and self._is_whole(*line[:2]):
                length, _, note = line
                end, size = end + _LINE.size + len(note), size + length
                yield note
        else:
            end = 0
        self._log.seek(end)
        self._log.truncate(end)
        if not end:
            self._log.write(head)
            self._log.flush()
        self._data.seek(size)
        self._data.truncate(size)
        self.size = size

    def add(self, data: bytes, note: bytes) -> None:
        """Append a part. Raises OSError; what could not be written whole is no part."""
        view = memoryview(data)
        while view:
            view = view[self._data.write(view) :]
        self._log.write(_entry(len(data), zlib.crc32(data), note))
        self._log.flush()
        self.size += len(data)

    def place(self, path: Path) -> None:
        """Sync the file and put it in its place: whole, or not at all."""
        os.fsync(self._data.fileno())
        self.path.replace(path)
        self._log_path.unlink()
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        self._data.close()
        self._log.close()

    def __enter__(self) -> "Parts":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.close()
        except OSError:
            if error is None:
                raise

    def _line(self) -> tuple[int, int, bytes] | None:
        head = self._log.read(_LINE.size)
        if len(head) < _LINE.size:
            return None
        length, check, note_length, note_check = _LINE.unpack(head)
        note = self._log.read(note_length)
        whole = len(note) == note_length and note_check == _sum(length, check, note)
        return (length, check, note) if whole else None

    def _is_whole(self, length: int, check: int) -> bool:
        """Whether the next bytes of the data are a part with this checksum."""
        found = 0
        while length:
            piece = self._data.read(min(length, _COPY))
            if not piece:
                return False
            found, length = zlib.crc32(piece, found), length - len(piece)
        return found == check


def _entry(length: int, check: int, note: bytes) -> bytes:
    return _LINE.pack(length, check, len(note), _sum(length, check, note)) + note


def _sum(length: int, check: int, note: bytes) -> int:
    """Of the numbers too: a disk that lost power may have left zeros, which must be no empty part."""
    return zlib.crc32(note, zlib.crc32(_SUMMED.pack(length, check, len(note))))
