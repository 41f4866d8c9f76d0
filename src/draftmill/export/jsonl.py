"""JSONL rows, ``{"input_ids", "loss_mask", …}`` one a line: what SpecForge and speculators read."""

from collections import Counter
from pathlib import Path

import msgspec

from draftmill.errors import RunError, StorageError, UsageFault
from draftmill.ids import encode
from draftmill.journal.files import disk_advice, replacing
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.opened import open_run
from draftmill.ledger.rows import rows
from draftmill.ledger.stamp import lost
from draftmill.ledger.standing import Standing, unreadable
from draftmill.records import Finish, Row

formats = ("jsonl",)

# name → whether a row is left out; a filter applies here and nowhere earlier, and what it drops is counted
FILTERS = {"truncated": lambda row: row.finish_reason is Finish.LENGTH}


class Exported(msgspec.Struct, frozen=True):
    """Rows written by dataset, rows left out by filter, how many tokens the rows hold, and how many of these
    the trainer will learn from.

    ``notes`` say what is not as it should be: prompts still owed, lines of the journal that were not understood.
    """

    rows: dict[str, int]
    dropped: dict[str, int]
    tokens: int
    supervised: int
    notes: list[str]


def export_jsonl(run: Path, target: Path, *, only: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> Exported:
    """Write the counting rows of a run's datasets into one file, whole or not at all.

    They are those that its recipe still has, or ``only`` these.

    Raises UsageFault where there is no run, for a target that must not be overwritten and for an unknown dataset or
    filter, RunError where there is not one row, StorageError where a journal that rows were built of is gone.
    """
    _refuse_target(run, target)
    opened = open_run(run)
    names = opened.chosen(only)
    for filter in drop:
        if filter not in FILTERS:
            raise UsageFault(f"no filter {filter!r}; there is {', '.join(FILTERS)}")
    written: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    notes = [f"{name}: {why}" for name, why in opened.left_out(only, "writes").items()]
    tokens = supervised = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{target}: cannot be written: {error.strerror or error}", disk_advice(error)) from error
    with replacing(target) as temporary, temporary.open("wb", buffering=1 << 20) as file:
        for name in names:
            files, standing = opened.folder.dataset(name), opened.standing(name)
            notes += _notes(name, files, standing)
            for row in rows(files, standing):
                if reason := _left_out(row, drop):
                    dropped[reason] += 1
                    continue
                file.write(encode(row) + b"\n")
                written[name] += 1
                tokens += len(row.input_ids)
                supervised += row.completion_tokens
        if not written:
            raise RunError(f"{run}: there is no row to export", "generate some first with `draftmill run`")
    return Exported(dict(written), dict(dropped), tokens, supervised, notes)


def _refuse_target(run: Path, target: Path) -> None:
    """Only a regular file outside the run's own files may be written: the answers of a run cost days."""
    place, inside = target.resolve(), run.resolve()
    if target.exists() and not target.is_file():
        raise UsageFault(f"--to {target}: is not a regular file", "name a file, for example rows.jsonl")
    if not target.name or target.name == "-":
        raise UsageFault(f"--to {target}: names no file", "name a file, for example rows.jsonl")
    if place.is_relative_to(inside) and not place.is_relative_to(inside / "export"):
        raise UsageFault(f"--to {target}: lies among the run's own files", f"{run / 'export'} is free for exports")


def _notes(name: str, files: DatasetFolder, standing: Standing) -> list[str]:
    owed, gone = standing.tally().owed, lost(files, standing)
    told = f"{name}: {owed} prompt{' is' if owed == 1 else 's are'} still owed"
    fewer = [f"{name}: {gone} answers are gone from its journal since rows were built of them"] if gone else []
    return [told, *fewer, *unreadable(files, standing)] if owed else []


def _left_out(row: Row, drop: tuple[str, ...]) -> str | None:
    return next((name for name in drop if FILTERS[name](row)), None)
