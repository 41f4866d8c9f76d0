"""The internal errors of this room: a row that cannot be read, and a file that cannot be read any further."""


class RowFault(Exception):
    """One row cannot be read. ``reason`` is a sentence for a person; it becomes an UnreadRow, never a crash."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Lost(str):
    """Why nothing can be read from here to the end of a file: rows are missing, and nobody knows how many."""

    __slots__ = ()
