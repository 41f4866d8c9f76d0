"""Follow a file that is appended to: each look reads what came since the last one."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from draftmill.journal.reader import is_object


class Tail:
    """The lines of one file from an offset on. ``replaced`` is set where the file is not the one that was read.

    A last line without its newline is given once it is a whole JSON object, and is ``torn`` until then: the writer
    cuts it off, or ends it.
    """

    def __init__(self, path: Path, offset: int = 0, number: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.number = number  # lines given so far
        self.torn = False
        self.replaced = False
        self._inode: int | None = None

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """(line number from 1, offset, line) of each whole line since the last look."""
        self.torn = False
        try:
            with self.path.open("rb") as file:
                yield from self._read(file)
        except OSError:
            self.replaced = self.offset > 0

    def _read(self, file: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
        status = os.fstat(file.fileno())
        if status.st_size < self.offset or (self._inode is not None and status.st_ino != self._inode):
            self.replaced = True
            return
        self._inode = status.st_ino
        file.seek(self.offset)
        for line in file:
            if not line.endswith(b"\n") and not is_object(line):
                self.torn = True
                return
            start, self.offset = self.offset, self.offset + len(line)
            if line.strip():  # the newline that a whole line got later
                self.number += 1
                yield self.number, start, line
