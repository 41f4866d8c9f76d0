"""Training rows in position order: the counting completions behind their prompts, and what is passed through.

Derived, always rebuildable.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO

import msgspec

from draftmill.errors import StorageError
from draftmill.ids import encode
from draftmill.journal.files import replacing
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.index import digest_of
from draftmill.journal.prompts import PromptHead, read_heads
from draftmill.journal.reader import completion_at
from draftmill.ledger.standing import Standing
from draftmill.records import Completion, Row


def row(dataset: str, prompt: PromptHead, completion: Completion) -> Row:
    """One row: the prompt's ids masked 0, the generated ids, stop token included, masked 1.

    Of a later turn, the prompt's ids stand in the completion.
    """
    prompt_ids = completion.prompt_ids if completion.turn else prompt.prompt_ids
    if completion.id != prompt.id or completion.prompt_tokens != len(prompt_ids):
        counts = f"it was generated behind {completion.prompt_tokens} tokens, the prompt has {len(prompt_ids)}"
        raise StorageError(
            f"dataset {dataset}: the completion of position {prompt.position} does not belong to its prompt: {counts}",
            "prompts or journal were changed: restore them, or take that line out of the journal to draw it again",
        )
    return Row(
        input_ids=[*prompt_ids, *completion.output_ids],
        loss_mask=[0] * len(prompt_ids) + [1] * len(completion.output_ids),
        id=prompt.id,
        position=prompt.position,
        turn=completion.turn,
        dataset=dataset,
        prompt_tokens=len(prompt_ids),
        completion_tokens=len(completion.output_ids),
        finish_reason=completion.finish_reason,
    )


def passed(dataset: str, prompt: PromptHead) -> Row:
    """The row of a prompt that was tokenized already, as it is."""
    mask = prompt.loss_mask
    if mask is None or len(mask) != len(prompt.prompt_ids):
        raise StorageError(
            f"dataset {dataset}: the mask of position {prompt.position} does not fit its ids",
            "the prompts were changed by hand; restore them, or start a new run",
        )
    return Row(
        input_ids=list(prompt.prompt_ids),
        loss_mask=mask,
        id=prompt.id,
        position=prompt.position,
        turn=prompt.turn,
        dataset=dataset,
        prompt_tokens=len(mask) - sum(mask),
        completion_tokens=sum(mask),
        finish_reason=None,
    )


def rows(folder: DatasetFolder, standing: Standing) -> Iterator[Row]:
    """Every counting row of a dataset, in the order of positions and turns, one in memory at a time."""
    counting = standing.counting()
    due = next(counting, None)
    if due is None:
        return
    with ExitStack() as stack:
        file: IO[bytes] | None = None
        for prompt in read_heads(folder.prompts):
            if prompt.position != due[0]:
                continue
            if not due[1]:
                yield passed(folder.name, prompt)
            for offset in due[1]:
                file = file or stack.enter_context(folder.journal.open("rb"))
                yield row(folder.name, prompt, completion_at(file, offset))
            due = next(counting, None)
            if due is None:
                return


class _Stamp(msgspec.Struct, frozen=True):
    """What a rows file was built from; equal stamps mean that it need not be built again."""

    journal_bytes: int
    prompts_bytes: int
    cut: int
    rows: int
    rows_bytes: int
    journal_digest: str = ""  # so that the rows are those of the journal, and are whole themselves
    rows_digest: str = ""


def refresh_rows(folder: DatasetFolder, standing: Standing) -> int:
    """Write ``tokenized_data.jsonl`` where it does not hold the counting rows as they stand. Returns their number."""
    stamp = _Stamp(
        journal_bytes=folder.journal.stat().st_size if folder.journal.exists() else 0,
        prompts_bytes=folder.prompts.stat().st_size,
        cut=standing.cut(),
        rows=sum(len(offsets) or 1 for _, offsets in standing.counting()),
        rows_bytes=folder.rows.stat().st_size if folder.rows.exists() else -1,
        journal_digest=digest_of(folder.journal),
        rows_digest=digest_of(folder.rows),
    )
    if _read_stamp(folder) == stamp:
        return stamp.rows
    folder.rows_stamp.unlink(missing_ok=True)
    with replacing(folder.rows) as temporary, temporary.open("wb") as file:
        for each in rows(folder, standing):
            file.write(encode(each) + b"\n")
    stamp = msgspec.structs.replace(stamp, rows_bytes=folder.rows.stat().st_size, rows_digest=digest_of(folder.rows))
    with replacing(folder.rows_stamp) as temporary:
        temporary.write_bytes(encode(stamp) + b"\n")
    return stamp.rows


def written(folder: DatasetFolder) -> int | None:
    """How many rows ``tokenized_data.jsonl`` holds; None where it is not there, or not as it was built."""
    try:
        stamp = _read_stamp(folder)
        return stamp.rows if stamp and folder.rows.stat().st_size == stamp.rows_bytes else None
    except OSError:
        return None


def lost(folder: DatasetFolder, standing: Standing) -> int:
    """How many answers the journal lost since rows were built of them; they are owed again.

    Raises StorageError where it lost all: who deleted it may not have meant to draw everything again.
    """
    stamp, known = _read_stamp(folder), standing.known_rows()
    if not stamp or stamp.rows <= known:
        return 0
    if not known:
        raise StorageError(
            f"{folder.journal}: its answers are gone, and rows were built of {stamp.rows}",
            f"restore it; to draw its answers again, delete {folder.rows_stamp.name} and {folder.rows.name} beside it",
        )
    return stamp.rows - known


def _read_stamp(folder: DatasetFolder) -> _Stamp | None:
    try:
        return msgspec.json.decode(folder.rows_stamp.read_bytes(), type=_Stamp)
    except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
        return None
