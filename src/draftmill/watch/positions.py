"""The state of every position of a dataset, kept up to date line by line, and the budget's cut with it.

The rules are ``ledger.standing``'s; here they are applied to a million records at once, and after that each new line
costs the same however many there are. The tests hold both to the same sums.
"""

from collections import Counter

import msgspec
import numpy as np

from draftmill.journal.index import FIELDS, FINISHES, LOOK, MORE, PARTIAL, REDRAWN, PromptIndex
from draftmill.journal.reader import Entry
from draftmill.ledger.standing import Limits, Tally, widened
from draftmill.recipe import BudgetCounts
from draftmill.records import Failure, Finish
from draftmill.watch.lengths import Histogram

_OWED, _DONE, _FAILED, _PASSED = range(4)
_STATES = 4
_NEVER = np.iinfo(np.int64).max
RECORD = np.dtype(FIELDS)


class _Said(msgspec.Struct):
    """The turns of a conversation that is not over: how many, and their tokens."""

    turns: int = 0
    tokens: int = 0
    counted: int = 0


class Positions:
    """Every position of one dataset. ``lengths`` are of all whole answers, each turn one of its own."""

    def __init__(self, prompts: PromptIndex, samples: int | None, budget: int | None, counts: BudgetCounts) -> None:
        self._ids = np.frombuffer(prompts.ids, dtype="<u8").reshape(-1, 2)
        self.number = len(self._ids)
        self._counts = counts
        self._state = np.zeros(self.number, dtype=np.uint8)
        self._counted = np.zeros(self.number, dtype=np.int64)
        self._more = np.zeros(self.number, dtype=np.int32)  # rows of a position besides its first: a turn is a row
        self._growing = np.zeros(self.number, dtype=np.int64)  # tokens that partial lines hold of an owed position
        self._said: dict[int, _Said] = {}
        self._failed: dict[int, dict[int, str]] = {}  # position → turn → kind of the error rows that stand there
        self.lengths, self.prompt_lengths = Histogram(), Histogram()
        self.finishes: Counter[str] = Counter()
        self.continued = self.redrawn = self.strays = self.orphans = 0
        self.cut_at: Limits | None = None
        self.growing = 0
        self._unfinished: set[int] = set()
        self.generated = self.prompt_tokens = 0
        if len(prompts.tokens):
            tokens = np.array(prompts.tokens, dtype=np.int64)
            self._state[tokens > 0] = _PASSED
            self._counted = np.array(prompts.supervised, dtype=np.int64) if counts == "generated" else tokens
        self.set_cut(samples, budget)

    def set_cut(self, samples: int | None, budget: int | None) -> None:
        """Another budget, or other samples: the cut is worked out anew."""
        self._needed, self._budget = min(self.number, samples or self.number), budget
        if budget is None:
            self._cut = self._needed
        else:
            sums = np.cumsum(self._counted[: self._needed])
            self._cut = min(self._needed, int(np.searchsorted(sums, budget)) + 1)
        self._before = np.bincount(self._state[: self._cut], minlength=_STATES).tolist()
        self._after = np.bincount(self._state[self._cut :], minlength=_STATES).tolist()
        self._inside = int(self._counted[: self._cut].sum())
        self._more_inside = int(self._more[: self._cut].sum())

    def load(self, records: "np.ndarray") -> None:
        """Take in all records of an index at once, in their order; those that have to be looked at are passed over."""
        records = records[(records["flags"] & LOOK) == 0]
        position = records["position"].astype(np.int64)
        known = position < self.number
        known[known] = (records["id"][known] == self._ids[position[known]]).all(axis=1)
        self.strays += int(np.count_nonzero(~known))
        records, position = records[known], position[known]
        odd = (records["turn"] > 0) | ((records["flags"] & MORE) != 0)
        if odd.any():  # conversations go through the rules one line at a time
            many = np.zeros(self.number, dtype=bool)
            many[position[odd]] = True
            slow = many[position]
            for record in records[slow]:
                self.add(_entry(record))
            records, position = records[~slow], position[~slow]
        self._load_single(records, position)
        self.set_cut(self._needed, self._budget)

    def _load_single(self, records: "np.ndarray", position: "np.ndarray") -> None:
        """Answers of one turn and their partial lines: the first whole line of a position is its answer."""
        partial = (records["flags"] & PARTIAL) != 0
        number = np.arange(len(records))
        whole, at = number[~partial], position[~partial]
        first = np.full(self.number, _NEVER, dtype=np.int64)
        first[at[::-1]] = whole[::-1]
        first[self._state == _PASSED] = -1
        taken = whole[first[at] == whole]
        self.strays += len(whole) - len(taken) + int(np.count_nonzero(first[position[partial]] < 0))
        answers, at = records[taken], position[taken]
        self._growing[position[partial]] = (
            records["continued"][partial].astype(np.int64) + records["completion_tokens"][partial]
        )
        self._growing[first != _NEVER] = 0
        self.growing, self._unfinished = int(self._growing.sum()), set(np.nonzero(self._growing)[0].tolist())
        self._state[at] = _DONE
        self._counted[at] = answers["completion_tokens"]
        if self._counts == "all":
            self._counted[at] += answers["prompt_tokens"]
        self.lengths.add_all(answers["completion_tokens"])
        self.prompt_lengths.add_all(answers["prompt_tokens"])
        self.generated, self.prompt_tokens = self.lengths.total, self.prompt_lengths.total
        self.continued += int(np.count_nonzero(answers["continued"]))
        self.redrawn += int(np.count_nonzero(answers["flags"] & REDRAWN))
        cut = answers["limit"][(answers["flags"] & 3) == FINISHES.index(Finish.LENGTH)]
        for limit in (int(cut.min()), int(cut.max())) if len(cut) else ():
            self.cut_at = widened(self.cut_at, limit)
        for finish, count in zip(FINISHES, np.bincount(answers["flags"] & 3, minlength=len(FINISHES)), strict=False):
            if count:
                self.finishes[finish.value] += int(count)

    def add(self, entry: Entry) -> bool:
        """Take in one line, whole or partial. False where it does not belong here, or its position has its answer."""
        position = entry.position
        state = int(self._state[position]) if self._holds(entry.id, position) else _PASSED
        failed = self._failed.get(position) if state in (_FAILED, _DONE) else None
        said = self._said.get(position)
        if failed and said is None and state == _FAILED:
            state = _OWED  # an answer overrides an error row
        elif failed and said is not None and said.turns in failed:
            state = _OWED
        if entry.partial and state == _DONE:
            return True
        if state != _OWED:
            self.strays += 1
            return False
        due = entry.turn == (said.turns if said else 0)
        if entry.partial:
            if due:
                self._grow(position, entry.continued + entry.completion_tokens)
            return True
        if not due:
            late = entry.turn > (said.turns if said else 0)
            self.orphans, self.strays = self.orphans + late, self.strays + (not late)
            return False
        self._grow(position, 0)
        self._seen(entry)
        worth = entry.completion_tokens + (entry.prompt_tokens if self._counts == "all" else 0)
        if said or entry.more:
            said = self._said.setdefault(position, _Said())
            said.turns, said.tokens, said.counted = (
                said.turns + 1,
                said.tokens + entry.completion_tokens,
                said.counted + worth,
            )
            worth = said.counted
        if not entry.more:
            self._said.pop(position, None)
            self._failed.pop(position, None)
            self._settle(position, _DONE, worth, said.turns - 1 if said else 0)
        else:
            self._settle(position, _OWED, 0)
            self._apply_failures(position)
        return True

    def fail(self, failure: Failure) -> None:
        """Take in an error row."""
        position = failure.position
        if self._holds(failure.id, position):
            self._failed.setdefault(position, {})[failure.turn] = failure.kind
            self._apply_failures(position)

    @property
    def growing_answers(self) -> int:
        return len(self._unfinished)

    @property
    def rows(self) -> int:
        """Rows inside the cut, as ``ledger.rows`` writes them."""
        return int(self._before[_DONE] + self._before[_PASSED] + self._more_inside)

    def ages(self) -> tuple[int, ...]:
        """The tokens that each unfinished answer has."""
        return tuple(self._growing[sorted(self._unfinished)].tolist())

    def tally(self) -> Tally:
        before, after = self._before, self._after
        return Tally(
            positions=self.number,
            counting=before[_DONE],
            surplus=after[_DONE],
            passed_through=before[_PASSED],
            error=before[_FAILED] + after[_FAILED],
            owed=before[_OWED],
            not_needed=after[_OWED] + after[_PASSED],
            counting_tokens=self._inside,
        )

    def _apply_failures(self, position: int) -> None:
        """An error row counts where its turn is the one that is owed: it ends a conversation, whose turns stand."""
        said = self._said.get(position)
        if int(self._state[position]) != _OWED or (said.turns if said else 0) not in self._failed.get(position, ()):
            return
        if said:
            self._settle(position, _DONE, said.counted, said.turns - 1)
        else:
            self._settle(position, _FAILED, 0)

    def _settle(self, position: int, state: int, counted: int, more: int = 0) -> None:
        """Put a position into a state, and move the cut down where the budget is now reached earlier.

        A position loses tokens only where a retry goes on behind an error row: then the cut is worked out anew.
        """
        old, less = int(self._state[position]), counted < self._counted[position]
        side = self._before if position < self._cut else self._after
        side[old] -= 1
        side[state] += 1
        if position < self._cut:
            self._inside += counted - int(self._counted[position])
            self._more_inside += more - int(self._more[position])
        self._state[position], self._counted[position], self._more[position] = state, counted, more
        if self._budget is None:
            return
        if less:
            self.set_cut(self._needed, self._budget)
            return
        while self._cut > 0 and self._inside - int(self._counted[self._cut - 1]) >= self._budget:
            self._cut -= 1
            self._inside -= int(self._counted[self._cut])
            self._more_inside -= int(self._more[self._cut])
            moved = int(self._state[self._cut])
            self._before[moved] -= 1
            self._after[moved] += 1

    def _seen(self, entry: Entry) -> None:
        self.lengths.add(entry.completion_tokens)
        self.prompt_lengths.add(entry.prompt_tokens)
        self.generated += entry.completion_tokens
        self.prompt_tokens += entry.prompt_tokens
        self.finishes[entry.finish_reason.value] += 1
        if entry.finish_reason is Finish.LENGTH:
            self.cut_at = widened(self.cut_at, entry.limit)
        self.continued += entry.continued > 0
        self.redrawn += entry.redrawn

    def _grow(self, position: int, tokens: int) -> None:
        before = int(self._growing[position])
        self._growing[position] = tokens
        self.growing += tokens - before
        (self._unfinished.add if tokens else self._unfinished.discard)(position)

    def _holds(self, id: str, position: int) -> bool:
        return 0 <= position < self.number and self._ids[position].tobytes().hex() == id


def _entry(record: "np.void") -> Entry:
    flags = int(record["flags"])
    return Entry(
        record["id"].tobytes().hex(),
        int(record["position"]),
        int(record["turn"]),
        int(record["prompt_tokens"]),
        int(record["completion_tokens"]),
        Finish(FINISHES[flags & 3]),
        int(record["limit"]),
        bool(flags & PARTIAL),
        int(record["continued"]),
        bool(flags & REDRAWN),
        bool(flags & MORE),
        None,
        int(record["offset"]),
    )
