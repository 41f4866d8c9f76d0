"""``errors.jsonl`` as it grows: error rows by reason."""

import re
from pathlib import Path

import msgspec

from draftmill.records import Failure
from draftmill.watch.figures import ErrorReason, Unread
from draftmill.watch.tail import Tail

_NUMBER = re.compile(r"\d[\d,.]*")
_REASONS = 200  # that are told apart; the rest is one


class Errors:
    """The error rows of one dataset. Reasons that differ in numbers only are one."""

    def __init__(self, path: Path) -> None:
        self._decode = msgspec.json.Decoder(Failure).decode
        self.tail = Tail(path)
        self.count = 0
        self._reasons: dict[tuple[str, str], ErrorReason] = {}
        self._bad = (0, 0, "")

    def refresh(self) -> list[Failure]:
        """The rows that came since the last look."""
        fresh = []
        for number, _, line in self.tail.lines():
            try:
                failure = self._decode(line)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                lines, first, reason = self._bad
                self._bad = (lines + 1, first or number, reason or str(error))
                continue
            fresh.append(failure)
            self._add(failure)
        return fresh

    def reasons(self, most: int = 5) -> list[ErrorReason]:
        """The commonest first."""
        return sorted(self._reasons.values(), key=lambda r: -r.count)[:most]

    def unread(self) -> list[Unread]:
        lines, first, reason = self._bad
        return [Unread(str(Path(*self.tail.path.parts[-2:])), lines, first, reason)] if lines else []

    def _add(self, failure: Failure) -> None:
        self.count += 1
        key = failure.kind, _NUMBER.sub("N", failure.reason)
        if key not in self._reasons and len(self._reasons) >= _REASONS:
            key = "other", "other reasons"
        known = self._reasons.get(key)
        self._reasons[key] = ErrorReason(
            failure.kind if known is None else known.kind,
            key[1],
            (known.count if known else 0) + 1,
            failure.reason,
            failure.where,
        )
