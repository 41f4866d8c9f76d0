"""The one internal error of this room: a row that cannot be read, and why."""


class RowFault(Exception):
    """One row cannot be read. ``reason`` is a sentence for a person; it becomes an UnreadRow, never a crash."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
