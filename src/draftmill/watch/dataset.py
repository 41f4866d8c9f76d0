"""One dataset of a run as it grows: its journal, its errors, and what they make of its positions."""

from collections import Counter, deque
from pathlib import Path

import msgspec
import numpy as np

from draftmill.errors import StorageError
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.index import LOOK, PARTIAL, read_indexed
from draftmill.journal.prompts import index_of
from draftmill.journal.reader import LARGEST, UnknownLine
from draftmill.ledger.stamp import altered, written
from draftmill.ledger.standing import Limits, widened
from draftmill.recipe import BudgetCounts
from draftmill.records import Finish
from draftmill.watch import shapes, thinking
from draftmill.watch.errors import Errors
from draftmill.watch.figures import DatasetFigures, Recent, Thinking, Unread
from draftmill.watch.lengths import Histogram
from draftmill.watch.positions import RECORD, Positions
from draftmill.watch.tail import Tail

_NO_INDEX = 1 << 62  # bytes of prompts from which an index is written: never, a watcher writes nothing
_SAMPLE = 256  # answers whose thinking is looked at when a run is opened
_EVERY = 16  # of those that come later, one in so many, once there are enough
_RECENT = 50
_LOOKED = 1 << 17  # records that are looked at in their journal at most, each a seek


class Plan(msgspec.Struct, frozen=True):
    """What the recipe says of a dataset."""

    lane: str = ""
    limit: int | None = None
    samples: int | None = None
    budget: int | None = None
    counts: BudgetCounts = "generated"
    vocab_size: int = LARGEST  # above every id of an answer


class DatasetWatch:
    """The files of one dataset, read as far as they have come."""

    def __init__(self, folder: DatasetFolder, plan: Plan, think: thinking.Thinks | None = None) -> None:
        self.folder = folder
        self.plan = plan
        self._think = think
        self._prompts_stamp: tuple[int, int, int] | None = None
        self._stale = True
        self._begin()

    def refresh(self) -> None:
        """Read what came since the last look; all of it, where a file is not the one that was read."""
        stamp = _stamp(self.folder.prompts)
        if self._stale or stamp != self._prompts_stamp:
            self._prompts_stamp, self._stale = stamp, False
            self._begin()
            self._open()
        for failure in self._errors.refresh():
            if self.positions:
                self.positions.fail(failure)
        for number, offset, line in self._tail.lines():
            self._line(number, offset, line)
        if self._tail.replaced or self._errors.tail.replaced:
            self._stale = True
            self.refresh()

    def replan(self, plan: Plan) -> None:
        """The recipe says something else now."""
        if (plan.counts, plan.vocab_size) != (self.plan.counts, self.plan.vocab_size):
            self._stale = True
        self.plan = plan
        if self.positions:
            self.positions.set_cut(plan.samples, plan.budget)

    @property
    def generated(self) -> int:
        """Tokens of all whole answers, those in older shapes included."""
        return self._older_lengths.total + (self.positions.generated if self.positions else self._loose_lengths.total)

    @property
    def growing(self) -> int:
        return self.positions.growing if self.positions else 0

    def ages(self) -> tuple[int, ...]:
        """The tokens that each unfinished answer has in the journal."""
        return self.positions.ages() if self.positions else ()

    @property
    def answers(self) -> int:
        return self._older_lengths.count + (
            self.positions.lengths.count if self.positions else self._loose_lengths.count
        )

    @property
    def failed(self) -> int:
        return self._errors.count

    @property
    def journal_bytes(self) -> int:
        return self._tail.offset

    def lengths(self) -> Histogram:
        return self._older_lengths.merged([self.positions.lengths if self.positions else self._loose_lengths])

    def prompt_lengths(self) -> Histogram:
        return self._older_prompts.merged([self.positions.prompt_lengths if self.positions else self._loose_prompts])

    def recent(self) -> list[Recent]:
        """The completions that came last, the newest first."""
        return list(self._recent)[::-1]

    def unread(self) -> list[Unread]:
        lines, first, reason = self._bad
        name = f"{self.folder.name}/{self.folder.journal.name}"
        found = [Unread(name, lines, first, reason)] if lines else []
        return found + self._errors.unread() + ([self._prompts_fault] if self._prompts_fault else [])

    def figures(self) -> DatasetFigures:
        """Without rates, ETA and recent counts, which need a clock."""
        tally = self.positions.tally() if self.positions else None
        lengths, prompt_lengths = self.lengths().figures(), self.prompt_lengths().figures()
        finishes = self._finishes + (self.positions.finishes if self.positions else Counter())
        answers, older = self.answers, self._older_lengths.count
        rows = self.positions.rows if self.positions else answers
        counted = tally.counting_tokens if tally else self._loose_lengths.total + self._older_lengths.total
        owed = tally.owed if tally else None
        if tally is None and self._prompt_lines is not None:
            owed = max(0, self._prompt_lines - answers - self._errors.count)
        budget = self.plan.budget
        return DatasetFigures(
            name=self.folder.name,
            lane=self.plan.lane,
            limit=self.plan.limit,
            prompts=tally.positions if tally else self._prompt_lines,
            rows=rows,
            written=written(self.folder),
            altered=altered(self.folder),
            counting=tally.counting if tally else None,
            surplus=tally.surplus if tally else None,
            passed_through=tally.passed_through if tally else None,
            errors=tally.error if tally else self._errors.count,
            owed=owed,
            not_needed=tally.not_needed if tally else None,
            budget=budget,
            budget_counts=self.plan.counts,
            counted=counted,
            exhausted=budget is not None and owed == 0 and counted < budget,
            answers=answers,
            generated=lengths.tokens if lengths else 0,
            prompt_tokens=prompt_lengths.tokens if prompt_lengths else 0,
            growing=self.growing,
            growing_answers=self.positions.growing_answers if self.positions else 0,
            finishes=dict(finishes),
            truncated=finishes["length"] / answers if answers else None,
            cut_at=self.positions.cut_at if self.positions else self._loose_cut,
            lengths=lengths,
            prompt_lengths=prompt_lengths,
            thinking=self._thinking(),
            continued=self.positions.continued if self.positions else 0,
            redrawn=self.positions.redrawn if self.positions else 0,
            strays=self.positions.strays if self.positions else 0,
            older_shape=older,
            torn=self._tail.torn,
            error_reasons=self._errors.reasons(),
            unread=self.unread(),
        )

    def _begin(self) -> None:
        self.positions: Positions | None = None
        self._prompt_lines: int | None = None
        self._prompts_fault: Unread | None = None
        self._errors = Errors(self.folder.errors)
        self._tail = Tail(self.folder.journal)
        self._finishes: Counter[str] = Counter()
        self._older_lengths, self._older_prompts = Histogram(), Histogram()
        self._loose_lengths, self._loose_prompts = Histogram(), Histogram()  # where the prompts are not known
        self._loose_cut: Limits | None = None
        self._recent: deque[Recent] = deque(maxlen=_RECENT)
        self._bad = (0, 0, "")
        self._thought = [0, 0, 0, 0]  # answers looked at, their tokens, those of thinking, never ended
        self._opened = thinking.opened(self._think, self.folder) if self._think else False

    def _open(self) -> None:
        """The prompts, and the journal as far as its index reaches."""
        if self._prompts_stamp is None:
            return
        try:
            prompts = index_of(self.folder.prompts, self.folder.prompts_index, worth=_NO_INDEX)
        except (StorageError, ValueError) as error:
            with self.folder.prompts.open("rb") as file:
                self._prompt_lines = sum(1 for _ in file)
            reason = error.message if isinstance(error, StorageError) else str(error)
            reason = reason.removeprefix(f"{self.folder.prompts}:")
            first, _, why = reason.partition(": ")
            at = int(first) if first.isdecimal() else 1
            name = f"{self.folder.name}/{self.folder.prompts.name}"
            self._prompts_fault = Unread(name, self._prompt_lines, at, why or reason)
            return
        self.positions = Positions(prompts, self.plan.samples, self.plan.budget, self.plan.counts)
        indexed = read_indexed(self.folder.journal, self.folder.journal_index)
        if not indexed.lines:
            return
        records = np.frombuffer(indexed.records, dtype=RECORD)
        unusual = records[(records["flags"] & LOOK) != 0]
        if len(unusual) > _LOOKED:
            return  # another version's journal: read from end to end
        self.positions.load(records)
        self._tail = Tail(self.folder.journal, indexed.covered, indexed.lines)
        numbers = np.nonzero((records["flags"] & LOOK) != 0)[0]
        self._look(records, numbers)

    def _look(self, records: "np.ndarray", unusual: "np.ndarray") -> None:
        """Read from the journal itself what its index does not hold: unusual lines, and a sample of answers."""
        with self.folder.journal.open("rb") as file:
            for number in unusual.tolist():
                file.seek(int(records["offset"][number]))
                self._line(number + 1, int(records["offset"][number]), file.readline())
            whole = np.nonzero((records["flags"] & (LOOK | PARTIAL)) == 0)[0]
            step = max(1, len(whole) // _SAMPLE)
            for number in whole[::step].tolist() if self._think else []:
                file.seek(int(records["offset"][number]))
                self._think_of(file.readline())
        for record in records[whole[-_RECENT:]]:
            self._recent.append(
                Recent(
                    self.folder.name,
                    int(record["position"]),
                    int(record["turn"]),
                    int(record["completion_tokens"]),
                    "length" if int(record["flags"]) & 3 == 1 else "stop",
                    int(record["offset"]),
                )
            )

    def _line(self, number: int, offset: int, text: bytes) -> None:
        line = shapes.read(text, offset, number, self.plan.vocab_size)
        if isinstance(line, UnknownLine):
            lines, first, reason = self._bad
            self._bad = (lines + 1, first or number, reason or line.reason)
        elif isinstance(line, shapes.Answer):
            self._older_lengths.add(line.completion_tokens)
            if line.prompt_tokens is not None:
                self._older_prompts.add(line.prompt_tokens)
            self._finishes[line.finish] += 1
            self._came(line.completion_tokens, line.finish, -1, 0, offset, older=True)
        elif self.positions is None:
            if not line.partial:
                self._loose_lengths.add(line.completion_tokens)
                self._loose_prompts.add(line.prompt_tokens)
                self._finishes[line.finish_reason.value] += 1
                if line.finish_reason is Finish.LENGTH:
                    self._loose_cut = widened(self._loose_cut, line.limit)
                self._came(line.completion_tokens, line.finish_reason.value, line.position, line.turn, offset)
        elif self.positions.add(line) and not line.partial:
            self._came(line.completion_tokens, line.finish_reason.value, line.position, line.turn, offset)
            if self._think and (self._thought[0] < _SAMPLE or number % _EVERY == 0):
                self._think_of(text)

    def _came(self, tokens: int, finish: str, position: int, turn: int, offset: int, *, older: bool = False) -> None:
        self._recent.append(Recent(self.folder.name, position, turn, tokens, finish, offset, older))

    def _think_of(self, line: bytes) -> None:
        assert self._think
        try:
            ids = shapes.ids(line)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return
        tokens, unclosed = self._think.of(ids, self._opened)
        self._thought = [a + b for a, b in zip(self._thought, (1, len(ids), tokens, unclosed), strict=True)]

    def _thinking(self) -> Thinking | None:
        answers, tokens, thought, unclosed = self._thought
        return Thinking(answers, thought / tokens, unclosed) if tokens else None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
