"""The head of a dataset's order that a run has begun with: prepared again, it must come out the same."""

from draftmill.errors import RunError
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.prompts import read_ids
from draftmill.journal.reader import Entry, scan
from draftmill.ledger.order import ID_BYTES


class OtherHead(RunError):
    """The prompts are not those that the run has begun with."""


class Head:
    """What stands at which position of a run that has begun: in its prompts, or where these are gone in its journal."""

    def __init__(self, folder: DatasetFolder, name: str) -> None:
        self._name = name
        self._position = 0
        self._old = folder.prompts.exists()
        if self._old:
            self._ids = b"".join(bytes.fromhex(prompt.id) for prompt in read_ids(folder.prompts))
            self._known: dict[int, bytes] = {}
        else:
            entries = [entry for entry in scan(folder.journal) if isinstance(entry, Entry)]
            self._ids = b""
            self._known = {entry.position: bytes.fromhex(entry.id) for entry in entries}
        self._last = max(self._known, default=-1)

    def check(self, ids: bytes) -> None:
        """The next ids of the order. Raises RunError where another one belongs."""
        start = self._position * ID_BYTES
        if self._ids[start : start + len(ids)] != ids[: max(0, len(self._ids) - start)] or self._known:
            for number in range(len(ids) // ID_BYTES):
                position = self._position + number
                at = position * ID_BYTES
                known = self._ids[at : at + ID_BYTES] or self._known.get(position)
                if known and known != ids[number * ID_BYTES : (number + 1) * ID_BYTES]:
                    self._refuse(position)
        self._position += len(ids) // ID_BYTES

    def ends(self) -> None:
        """The order has no more. Raises RunError where prompts are missing behind it."""
        if self._position < len(self._ids) // ID_BYTES or self._last >= self._position:
            self._refuse(self._position)

    def _refuse(self, position: int) -> None:
        if self._old:
            raise OtherHead(
                f"dataset {self._name}: its source changed since this run began (position {position} is another "
                "conversation now)",
                "restore the source, keep `samples` as it was, or start a new run",
            )
        raise OtherHead(
            f"dataset {self._name}: its prompts.jsonl is gone, and its source no longer gives the prompts that its "
            f"journal answers (position {position} is another conversation now); nothing was written",
            "put prompts.jsonl back, or the source as it was; or start a new run",
        )
