"""Append whole lines durably to one file."""

from pathlib import Path

from draftmill.errors import StorageError
from draftmill.journal.files import SYSTEM, Files, disk_advice
from draftmill.journal.reader import is_object

_BLOCK = 1 << 16


class Appender:
    """One append-only file of JSON lines.

    Opening repairs a torn tail before anything is appended and syncs what stands there, so that what a resume counts
    is durable. ``append`` returns once its lines are on the disk; when it raises, none of them is promised and the
    file is cut back to what was durable before. After a failed cut or a failed sync the appender refuses to go on:
    the kernel may have dropped the pages, so only a fresh opening tells what is there.

    ``repaired`` is the number of bytes that opening cut off a torn tail.
    """

    def __init__(self, path: Path, files: Files = SYSTEM) -> None:
        self.path = path
        self._files = files
        self._broken = False
        try:
            self._fd = files.open_append(path)
            self.repaired = self._repair()
            files.fsync(self._fd)
            files.fsync_folder(path.parent)
            self._durable = files.size(self._fd)
        except OSError as error:
            raise self._storage_error("opened", error) from error

    def append(self, lines: list[bytes]) -> None:
        """Write and sync a group of lines (each without its newline). Raises StorageError."""
        if self._broken:
            raise StorageError(f"{self.path}: an earlier failure left this file in doubt; run the same command again")
        data = b"\n".join([*lines, b""])
        try:
            self._write(data)
        except OSError as error:
            self._cut_back()
            raise self._storage_error("written", error) from error
        try:
            self._files.fsync(self._fd)
        except OSError as error:
            self._broken = True  # pages of a failed sync may be dropped silently: nothing more may be trusted
            self._cut_back()
            raise self._storage_error("synced", error) from error
        self._durable += len(data)

    def close(self) -> None:
        self._files.close(self._fd)

    def _write(self, data: bytes) -> None:
        while data:
            written = self._files.write(self._fd, data)
            data = data[written:] if written < len(data) else b""

    def _cut_back(self) -> None:
        try:
            self._files.truncate(self._fd, self._durable)
        except OSError:
            self._broken = True

    def _repair(self) -> int:
        """Cut a torn tail: the bytes after the last newline, and before it lines that are no JSON (a block of zeros).

        A last line that lacks only its newline is whole and gets it, since another program may have written it.
        """
        size = self._files.size(self._fd)
        end = size
        while end:
            start = self._line_start(end)
            line = self._files.read(self._fd, end - start, start)
            if is_object(line):
                break
            end = start
        if end < size:
            self._files.truncate(self._fd, end)
        if end and self._files.read(self._fd, 1, end - 1) != b"\n":
            self._write(b"\n")
        return size - end

    def _line_start(self, end: int) -> int:
        """The offset at which the line that ends before ``end`` begins (its own newline may stand at ``end - 1``)."""
        position = end - 1
        while position > 0:
            block = max(0, position - _BLOCK)
            newline = self._files.read(self._fd, position - block, block).rfind(b"\n")
            if newline >= 0:
                return block + newline + 1
            position = block
        return 0

    def _storage_error(self, what: str, error: OSError) -> StorageError:
        return StorageError(f"{self.path}: cannot be {what}: {error.strerror or error}", disk_advice(error))
