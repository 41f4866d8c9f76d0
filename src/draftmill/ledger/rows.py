"""Training rows in position order: the counting completions behind their prompts, and what is passed through.

Derived, always rebuildable.
"""

import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import IO

import msgspec

from draftmill.errors import StorageError
from draftmill.ids import encode
from draftmill.journal.files import replacing
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.index import digest_of
from draftmill.journal.prompts import PromptHead, read_heads
from draftmill.journal.reader import completion_at, line_at
from draftmill.ledger.built import Built, checksum_of, parting
from draftmill.ledger.stamp import Stamp, only_grew, read_stamp, told
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
    """Every counting row of a dataset, in the order of positions and turns, one in memory at a time. Raises
    StorageError behind the last one where an answer was changed after its row was built."""
    fresh = Fresh(folder, standing)
    yield from (row for row, _ in fresh)
    if fresh.changed:
        raise StorageError(*told(folder, fresh.changed, fresh.first))


def _placed(folder: DatasetFolder, standing: Standing) -> Iterator[tuple[Row, int | None]]:
    """Every counting row, and where its line starts in the journal, if it has one there."""
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
                yield passed(folder.name, prompt), None
            for offset in due[1]:
                file = file or stack.enter_context(folder.journal.open("rb"))
                yield row(folder.name, prompt, completion_at(file, offset)), offset
            due = next(counting, None)
            if due is None:
                return


class Fresh:
    """The counting rows as they come out now, each with its line as it shall stand in the rows file.

    That is the line that stands there already where the answer was changed after its row was built: so many are
    ``changed``, and ``first`` tells of one. An answer that was appended since is no change. ``checksum`` is of all
    lines.
    """

    def __init__(self, folder: DatasetFolder, standing: Standing) -> None:
        self.changed = self.checksum = 0
        self.first = ""
        self._folder = folder
        self._standing = standing
        self._stamp = read_stamp(folder)
        self._same = only_grew(folder)
        self._witness: bool | None = None

    def __iter__(self) -> Iterator[tuple[Row, bytes]]:
        with ExitStack() as stack:
            before = Built(stack.enter_context(self._folder.rows.open("rb"))) if self._looks_built() else None
            for fresh, offset in _placed(self._folder, self._standing):
                line = encode(fresh) + b"\n"
                found = before.find(fresh, line) if before else b""
                if found and found != line and not self._appended(offset):
                    at = parting(found, fresh)
                    if at is not None and self._is_built():
                        self.changed, line = self.changed + 1, found
                        self.first = self.first or self._told(fresh, offset, at)
                self.checksum = zlib.crc32(line, self.checksum)
                yield fresh, line

    def _looks_built(self) -> bool:
        """Whether the rows file seems to hold what was built, and not what became of it."""
        file = self._folder.rows
        return self._stamp is not None and file.exists() and self._stamp.rows_digest == digest_of(file)

    def _is_built(self) -> bool:
        """Whether it does: all of it is read, once, and only where a row of it is to be a witness."""
        if self._witness is None:
            assert self._stamp is not None
            self._witness = self._stamp.rows_checksum in (None, checksum_of(self._folder.rows))
        return self._witness

    def _appended(self, offset: int | None) -> bool:
        assert self._stamp is not None
        return offset is not None and offset >= self._stamp.journal_bytes and self._same

    def _told(self, fresh: Row, offset: int | None, at: int) -> str:
        """Which line was changed, and what of the row it makes another."""
        asked = offset is None or (at < fresh.prompt_tokens and not fresh.turn)
        file = self._folder.prompts if asked else self._folder.journal
        line = fresh.position + 1 if offset is None or asked else line_at(file, offset)
        which = f"position {fresh.position}" + (f", turn {fresh.turn}," if fresh.turn else "")
        what = f"its id {at} would be another" if at < len(fresh.input_ids) else "it would end otherwise"
        return f"{file}:{line}: was changed after the row of {which} had been built of it: {what}"


def refresh_rows(folder: DatasetFolder, standing: Standing) -> int:
    """Write ``tokenized_data.jsonl`` where it does not hold the counting rows as they stand. Returns their number.

    A row whose answer was changed after it was built stays as it was built; ``stamp.altered`` tells of it.
    """
    before = read_stamp(folder)
    stamp = _stamp(folder, standing, before)
    if before == stamp:
        return stamp.rows
    fresh = Fresh(folder, standing)
    with replacing(folder.rows) as temporary, temporary.open("wb") as file:
        if folder.journal.exists():  # a kill may leave lines that are not on the disk; no row may outlive its answer
            with folder.journal.open("rb") as journal:
                os.fsync(journal.fileno())
        for _, line in fresh:
            file.write(line)
    stamp = msgspec.structs.replace(
        stamp,
        rows_bytes=folder.rows.stat().st_size,
        rows_digest=digest_of(folder.rows),
        rows_checksum=fresh.checksum,
        changed=fresh.changed,
        first=fresh.first,
    )
    with replacing(folder.rows_stamp) as temporary:
        temporary.write_bytes(encode(stamp) + b"\n")
    return stamp.rows


def changes(folder: DatasetFolder, standing: Standing, most: int | None = None) -> tuple[str, str] | None:
    """What ``stamp.altered`` would say after a look at the first ``most`` rows now, with nothing written. Raises
    StorageError where they cannot be built."""
    before = read_stamp(folder)
    if not before or before == _stamp(folder, standing, before):
        return None
    fresh = Fresh(folder, standing)
    for _ in islice(fresh, most):
        pass
    return told(folder, fresh.changed, fresh.first) if fresh.changed else None


def _stamp(folder: DatasetFolder, standing: Standing, before: Stamp | None) -> Stamp:
    """That of rows that stand there as they were built, of what is there now."""
    status = folder.journal.stat() if folder.journal.exists() else None
    return Stamp(
        journal_bytes=status.st_size if status else 0,
        prompts_bytes=folder.prompts.stat().st_size,
        cut=standing.cut(),
        rows=sum(len(offsets) or 1 for _, offsets in standing.counting()),
        rows_bytes=folder.rows.stat().st_size if folder.rows.exists() else -1,
        journal_digest=digest_of(folder.journal),
        rows_digest=digest_of(folder.rows),
        journal_changed=status.st_mtime_ns if status else 0,
        rows_checksum=before.rows_checksum if before else None,
    )
