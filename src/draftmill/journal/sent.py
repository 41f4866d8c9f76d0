"""How far a dataset's prompts were sent: what was in flight at a kill and never journaled is known by it.

The mark is written without a sync: it outlives the process, and after a power cut it may lie behind.
"""

import os
import struct
from contextlib import suppress
from pathlib import Path

_MARK = struct.Struct("<Q")


class SentMark:
    """``before``: the first position that no earlier start has sent; ``known``: whether there is a mark that says so.
    A disk that takes no mark stops nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        found = _read(path)
        self.known = found is not None
        self._next = self._written = self.before = found or 0

    def reach(self, position: int) -> None:
        """This position is sent once the mark is written."""
        self._next = max(self._next, position + 1)

    def write(self) -> None:
        if self._next == self._written:
            return
        self._written = self._next
        with suppress(OSError):
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.pwrite(self._file, _MARK.pack(self._next), 0)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _read(path: Path) -> int | None:
    try:
        (position,) = _MARK.unpack(path.read_bytes()[: _MARK.size])
    except (OSError, struct.error):
        return None
    return int(position)
