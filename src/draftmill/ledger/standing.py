"""The standing of one dataset: in which state every position is, and what of it counts.

Every position is in exactly one state, and the states add up to the positions (rule 2 of the design). Which positions
count is decided by order and budget alone: the shortest prefix of the order that reaches the budget (rule 4).
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from draftmill.errors import StorageError
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.index import WORTH, entries
from draftmill.journal.prompts import index_of
from draftmill.journal.reader import LARGEST, Entry, UnknownLine, is_object
from draftmill.ledger.order import ID_BYTES
from draftmill.recipe import BudgetCounts
from draftmill.records import Failure, Finish

_OWED, _DONE, _FAILED, _PASSED = range(4)

Limits = tuple[int, int]  # the lowest and the highest


def widened(limits: Limits | None, limit: int) -> Limits:
    """With one more."""
    return (limit, limit) if limits is None else (min(limits[0], limit), max(limits[1], limit))


class Tally(msgspec.Struct, frozen=True):
    """How many positions are in each state, and how many tokens the counting ones hold, as the budget counts them."""

    positions: int
    counting: int
    surplus: int
    passed_through: int
    error: int
    owed: int
    not_needed: int
    counting_tokens: int

    def adds_up(self) -> bool:
        """Whether every position is in exactly one state."""
        states = (self.counting, self.surplus, self.passed_through, self.error, self.owed, self.not_needed)
        return sum(states) == self.positions


class Said(msgspec.Struct, frozen=True):
    """The turns of a conversation up to now: their journal offsets, and their tokens together."""

    offsets: list[int] = []
    tokens: int = 0
    counted: int = 0

    def and_then(self, entry: Entry, worth: int) -> "Said":
        return Said([*self.offsets, entry.offset], self.tokens + entry.completion_tokens, self.counted + worth)


NOTHING = Said()


class Standing:
    """What is known of every position of one dataset; about 38 bytes a position, and 4 more where prompts count.

    ``unknown_lines`` are journal lines that are no answer, ``unknown_errors`` those of the error file; ``strays`` are
    whole lines that belong to no position of this dataset, or to one that already has its line, ``orphans`` turns whose
    earlier one was lost: they are drawn again with it. ``finishes`` counts how its answers ended, ``ended`` why
    conversations did before their recording, ``continued`` and ``redrawn`` answers that took more than one call;
    ``unsent`` are owed again behind an error that no engine gave; ``cut_at`` is the lowest and the highest limit that
    cut an answer; ``highest`` is the highest position of any line;
    ``prompt_offsets`` says where the prompts' lines start, where that is known; ``ids`` are those of all positions, 16
    bytes each. A conversation is one position: it is done with its last turn, and its turns' tokens count together.
    """

    def __init__(
        self,
        ids: bytes,
        samples: int | None = None,
        budget: int | None = None,
        counts: BudgetCounts = "generated",
    ) -> None:
        self.ids = ids
        self.positions = len(ids) // ID_BYTES
        self.samples = samples
        self.budget = budget
        self.counts = counts
        self._states = bytearray(self.positions)
        self._tokens = array("I", bytes(4 * self.positions))
        self._counted = self._tokens if counts == "generated" else array("I", bytes(4 * self.positions))
        self._cut_short = bytearray(self.positions)
        self._offsets = array("q", bytes(8 * self.positions))
        self.prompt_offsets = array("q")
        self.unknown_lines: list[UnknownLine] = []
        self.unknown_errors: list[UnknownLine] = []
        self.unsent: set[int] = set()
        self.strays = self.orphans = 0
        self.cut_at: Limits | None = None
        self.finishes: Counter[str] = Counter()
        self.continued = 0
        self.redrawn = 0
        self.highest = -1
        self.ended: Counter[str] = Counter()
        self._beginnings: dict[int, list[int]] = {}
        self._said: dict[int, Said] = {}

    def passed(self, position: int, tokens: int, supervised: int) -> None:
        """Take in a row that was tokenized already: nothing is generated for it, and the budget counts it as it is."""
        self._states[position] = _PASSED
        self._tokens[position] = supervised
        self._counted[position] = self.worth(tokens - supervised, supervised)

    def done(self, entry: Entry) -> bool:
        """Take in a journaled completion, or the beginning of one.

        False where it does not belong here, or its position has one already.
        """
        position, said = entry.position, self._said.get(entry.position)
        settled = (_PASSED,) if entry.partial else (_DONE, _PASSED)
        if not self._holds(entry.id, position) or self._states[position] in settled:
            self.strays += 1
            return False
        self.highest = max(self.highest, position)
        due = entry.turn == (len(said.offsets) if said else 0)
        if entry.partial:
            if due:
                self._beginnings.setdefault(position, []).append(entry.offset)
            return True
        if not due:
            late = entry.turn > (len(said.offsets) if said else 0)
            self.orphans, self.strays = self.orphans + late, self.strays + (not late)
            return False
        self._beginnings.pop(position, None)
        self.continued += entry.continued > 0
        self.redrawn += entry.redrawn
        self.finishes[entry.finish_reason.value] += 1
        if entry.finish_reason is Finish.LENGTH:
            self.cut_at = widened(self.cut_at, entry.limit)
        worth = self.worth(entry.prompt_tokens, entry.completion_tokens)
        if said or entry.more:
            self._said[position] = said = (said or NOTHING).and_then(entry, worth)
        if not entry.more:
            if entry.ended:
                self.ended[entry.ended.value] += 1
            self._states[position] = _DONE
            self._cut_short[position] = entry.finish_reason is Finish.LENGTH and not entry.ended
            self._tokens[position] = said.tokens if said else entry.completion_tokens
            self._counted[position] = said.counted if said else worth
            self._offsets[position] = entry.offset
        return True

    def said(self, position: int) -> "Said":
        """The turns that a conversation has, of one that is owed."""
        return self._said.get(position) or NOTHING

    def beginning(self, position: int) -> list[int]:
        """Journal offsets of the partial lines of an owed position, in their order."""
        return self._beginnings.get(position, [])

    def failed(self, failure: Failure, retry: bool = False) -> None:
        """Take in an error row; a completion of the same position overrides it, and with ``retry`` it is owed again.

        One of a later turn ends a conversation, whose turns so far stand.
        """
        position = failure.position
        if not self._holds(failure.id, position) or self._states[position] != _OWED:
            return
        said = self.said(position)
        if failure.turn != len(said.offsets):
            return
        if retry:
            never_sent = failure.engine is None and not failure.turn
            (self.unsent.add if never_sent else self.unsent.discard)(position)
        elif said.offsets:
            self.ended[failure.kind] += 1
            self._states[position] = _DONE
            self._tokens[position], self._counted[position] = said.tokens, said.counted
        else:
            self._states[position] = _FAILED

    def known_rows(self) -> int:
        """How many rows there could be: every answer, and every row that is passed through."""
        return self.finishes.total() + self._states.count(_PASSED)

    def is_owed(self, position: int) -> bool:
        return self._states[position] == _OWED

    def owed_before(self, end: int) -> int:
        """How many positions below this one are owed."""
        return self._states.count(_OWED, 0, end)

    def is_done(self, position: int) -> bool:
        return self._states[position] == _DONE

    def tokens(self, position: int) -> int:
        """Generated tokens of a completed position, supervised ones of one that is passed through, 0 of any other."""
        return self._tokens[position]

    def counted(self, position: int) -> int:
        """The tokens of a position that has a row, as the budget counts them; 0 of any other."""
        return self._counted[position]

    def worth(self, prompt_tokens: int, completion_tokens: int) -> int:
        """What an answer takes of the budget: its own tokens, or with ``counts`` "all" its prompt's too."""
        return completion_tokens if self.counts == "generated" else prompt_tokens + completion_tokens

    def lengths(self) -> Iterator[tuple[int, bool]]:
        """(generated tokens, whether a limit cut it) of every completed position."""
        for position in range(self.positions):
            if self._states[position] == _DONE:
                yield self._tokens[position], bool(self._cut_short[position])

    @property
    def needed(self) -> int:
        """How many positions ``samples`` leaves."""
        return min(self.positions, self.samples or self.positions)

    def cut(self) -> int:
        """The first position that does not count.

        While positions before it are owed this is an upper bound: their answers can only move it down.
        """
        if self.budget is None:
            return self.needed
        total = 0
        for position in range(self.needed):
            if total >= self.budget:
                return position
            total += self._counted[position]
        return self.needed

    def counting(self) -> Iterator[tuple[int, list[int]]]:
        """Every position that has rows that count, in order, and the journal offsets of its turns; none where it is
        passed through."""
        for position in range(self.cut()):
            if self._states[position] == _DONE:
                said = self._said.get(position)
                yield position, [self._offsets[position]] if said is None else said.offsets
            elif self._states[position] == _PASSED:
                yield position, []

    def tally(self) -> Tally:
        cut = self.cut()
        before, after = self._states[:cut], self._states[cut:]
        return Tally(
            positions=self.positions,
            counting=before.count(_DONE),
            surplus=after.count(_DONE),
            passed_through=before.count(_PASSED),
            error=self._states.count(_FAILED),
            owed=before.count(_OWED),
            not_needed=after.count(_OWED) + after.count(_PASSED),
            counting_tokens=sum(self._counted[:cut]),
        )

    def exhausted(self) -> bool:
        """Whether every position is settled and the budget is still not reached."""
        tally = self.tally()
        return self.budget is not None and tally.owed == 0 and tally.counting_tokens < self.budget

    def _holds(self, id: str, position: int) -> bool:
        own = self.ids[position * ID_BYTES : (position + 1) * ID_BYTES] if 0 <= position < self.positions else b""
        return own.hex() == id


def load_standing(
    folder: DatasetFolder,
    *,
    samples: int | None = None,
    budget: int | None = None,
    counts: BudgetCounts = "generated",
    retry_errors: bool = False,
    vocab_size: int = LARGEST,
    seal: bool = False,
    worth: int = WORTH,
) -> Standing:
    """Work out a dataset's standing from its files. ``retry_errors``: positions with an error row are owed again.

    Ids of an answer lie below ``vocab_size``. ``seal``: what the prompts are is fixed, where that was not done yet; who
    asks for that holds the run's lock. ``worth``: bytes of a file below which no index of it is written.
    """
    prompts = index_of(folder.prompts, folder.prompts_index, worth, seal=folder.prompts_seal, sealing=seal)
    _refuse_shortened(folder, len(prompts.ids) // ID_BYTES)
    standing = Standing(prompts.ids, samples, budget, counts)
    standing.prompt_offsets = prompts.offsets
    for position, (tokens, supervised) in enumerate(zip(prompts.tokens, prompts.supervised, strict=True)):
        if tokens:
            standing.passed(position, tokens, supervised)
    for entry in entries(folder.journal, folder.journal_index, worth, vocab_size):
        if isinstance(entry, UnknownLine):
            standing.unknown_lines.append(entry)
        else:
            standing.done(entry)
    for failure in read_failures(folder.errors):
        if isinstance(failure, Failure):
            standing.failed(failure, retry=retry_errors)
        elif not retry_errors:
            standing.unknown_errors.append(failure)
    return standing


def unreadable(folder: DatasetFolder, standing: Standing) -> list[str]:
    """What is to be said of the lines of journal and error file that could not be read: each file and its first one.

    They keep nothing from being complete: what they stood for is owed until another line has it.
    """
    told, settled = [], not standing.tally().owed
    for path, lines in ((folder.journal, standing.unknown_lines), (folder.errors, standing.unknown_errors)):
        if lines:
            many = f"one of {len(lines)} such lines; their prompts are" if len(lines) > 1 else "its prompt is"
            left = "settled without it" if settled else "left out, and owed unless answered in another line"
            told.append(f"{path}:{lines[0].line}: cannot be read: {lines[0].reason}; {many} {left}")
    if standing.orphans:
        turns = "one turn is" if standing.orphans == 1 else f"{standing.orphans} turns are"
        told.append(f"{folder.journal}: {turns} left out, since an earlier turn of the conversation is lost")
    return told


class _Prepared(msgspec.Struct):
    """The one figure of a preparation's report that is checked here."""

    positions: int


def _refuse_shortened(folder: DatasetFolder, positions: int) -> None:
    """A prompts file that lost lines would make a run look complete that is not."""
    try:
        wanted = msgspec.json.decode(folder.prepared.read_bytes(), type=_Prepared).positions
    except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
        return  # no report, or half of one: the prompts are prepared again, and compared then
    if positions != wanted:
        message = f"{folder.prompts}: holds {positions} prompts, {wanted} were prepared"
        raise StorageError(message, "restore the file: it decides what every answer belongs to; or start a new run")


def read_failures(path: Path) -> Iterator[Failure | UnknownLine]:
    """Every error row of a dataset. The position of a line that is none is owed; a torn last line is left out, as in
    a journal."""
    if not path.exists():
        return
    decoder = msgspec.json.Decoder(Failure)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                if line.endswith(b"\n") or is_object(line):
                    yield UnknownLine(number, str(error))
