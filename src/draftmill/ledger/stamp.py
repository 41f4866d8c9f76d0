"""What a dataset's rows were built from, kept beside them: so it shows what became of the journal and of them since."""

from enum import Enum

import msgspec

from draftmill.errors import StorageError
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.index import digest_of
from draftmill.ledger.built import checksum_of
from draftmill.ledger.standing import Standing


class Stamp(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a rows file was built from; equal stamps mean that it need not be built again.

    ``changed`` of its rows would be others by what stands there now and were left as they were; ``first`` tells of one.
    """

    journal_bytes: int
    prompts_bytes: int
    cut: int
    rows: int
    rows_bytes: int
    journal_digest: str = ""  # so that the rows are those of the journal, and are whole themselves
    rows_digest: str = ""
    journal_changed: int = 0  # a digest looks at blocks of a large file: what it misses shows in the time
    rows_checksum: int | None = None
    changed: int = 0
    first: str = ""


def read_stamp(folder: DatasetFolder) -> Stamp | None:
    """That of the rows as they were built last; None where none were, or nobody can tell."""
    try:
        return msgspec.json.decode(folder.rows_stamp.read_bytes(), type=Stamp)
    except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
        return None


def only_grew(folder: DatasetFolder) -> bool:
    """Whether the journal still begins with what rows were built of; true where none were."""
    stamp = read_stamp(folder)
    return not stamp or digest_of(folder.journal, stamp.journal_bytes) == stamp.journal_digest


class Culprit(Enum):
    """Which file was changed, where a row is not what stands in the journal."""

    JOURNAL = "journal"
    ROWS = "rows"
    UNKNOWN = "unknown"


def culprit(folder: DatasetFolder) -> Culprit:
    """By what was noted of both when the rows were built; all of the rows file is read."""
    stamp = read_stamp(folder)
    if not stamp or stamp.rows_checksum is None:
        return Culprit.UNKNOWN
    if stamp.rows_checksum == checksum_of(folder.rows):
        return Culprit.JOURNAL
    touched = stamp.changed or folder.journal.stat().st_mtime_ns != stamp.journal_changed  # a digest may miss it
    return Culprit.UNKNOWN if touched or not only_grew(folder) else Culprit.ROWS


def altered(folder: DatasetFolder) -> tuple[str, str] | None:
    """What is to be said of answers that were changed after their rows were built, and what to do: by the last look at
    them, or since what the journal began with then is another now."""
    stamp = read_stamp(folder)
    if not stamp:
        return None
    if stamp.changed:
        return told(folder, stamp.changed, stamp.first)
    status = folder.journal.stat() if folder.journal.exists() else None
    if not status or status.st_mtime_ns == stamp.journal_changed or only_grew(folder):
        return None
    what = f"{folder.journal}: was changed after rows had been built of it"
    return what, f"`draftmill verify {folder.path.parent}` tells which answer: restore it"


def told(folder: DatasetFolder, changed: int, first: str) -> tuple[str, str]:
    """The same of so many rows, of which ``first`` tells of one."""
    message = first if changed == 1 else f"{first}; one of {changed} such rows"
    advice = f"restore that line; or delete {folder.rows_stamp}, and what stands there now is taken for the answer"
    return message, advice


def written(folder: DatasetFolder) -> int | None:
    """How many rows ``tokenized_data.jsonl`` holds; None where it is not there, not as it was built, or not what the
    journal says."""
    try:
        stamp = read_stamp(folder)
        whole = stamp and not stamp.changed and folder.rows.stat().st_size == stamp.rows_bytes
        return stamp.rows if stamp and whole else None
    except OSError:
        return None


def lost(folder: DatasetFolder, standing: Standing) -> int:
    """How many answers the journal lost since rows were built of them; they are owed again.

    Raises StorageError where it lost all: who deleted it may not have meant to draw everything again.
    """
    stamp, known = read_stamp(folder), standing.known_rows()
    if not stamp or stamp.rows <= known:
        return 0
    if not known:
        raise StorageError(
            f"{folder.journal}: its answers are gone, and rows were built of {stamp.rows}",
            f"restore it; to draw its answers again, delete {folder.rows_stamp.name}, {folder.rows.name} and "
            f"{folder.sent.name} beside it",
        )
    return stamp.rows - known
