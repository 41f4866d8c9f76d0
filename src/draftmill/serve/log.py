"""A server's log since one of its starts."""

import re
from pathlib import Path

_TAIL = 1 << 20  # bytes at its end that a death is explained by
_LINES = 400
_DEBUGGER = re.compile(r"\[New LWP |#\d+ |\d+\t|\[Thread debugging")  # llama.cpp calls gdb when it aborts
_START = 4 << 20  # bytes of a start that are read for its figures


class StartLog:
    """The part of ``path`` that is written from now on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = self.size()

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def beginning(self) -> list[str]:
        """The lines of the start."""
        return self._read(self._begin, _START)

    def tail(self) -> list[str]:
        """The last lines, without what a debugger adds to them."""
        lines = self._read(max(self._begin, self.size() - _TAIL), _TAIL)
        return [line for line in lines if not _DEBUGGER.match(line)][-_LINES:]

    def _read(self, offset: int, length: int) -> list[str]:
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                # progress bars go back to the line's beginning
                return file.read(length).decode("utf-8", "replace").replace("\r", "\n").splitlines()
        except FileNotFoundError:
            return []
