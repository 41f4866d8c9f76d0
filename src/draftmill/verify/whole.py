"""Checks of a whole file, or of all files of a run: what no single row shows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from draftmill.ledger.order import ID_BYTES, rank
from draftmill.ledger.stamp import Culprit
from draftmill.verify.checks import REBUILD
from draftmill.verify.examine import Found, Other
from draftmill.verify.journaled import Ledgered, Places
from draftmill.verify.tally import Tally

SIZES = (8_000, 16_000, 32_000, 64_000)  # draft vocabularies that people train
_USUAL_SIZE = 32_000
_STRICT = 5.0  # deviations of a rank correlation that chance does not give
_MANY = 30  # rows that tell of a correlation, or of a distribution
_FACTOR = 3.0  # between medians that are told
_SCRIPT = 0.2  # of the ids in other scripts that is told


@dataclass
class Whole:
    """All parts of one dataset, in their order. ``advice`` says what to do about a check's findings here, where that
    is known better than of all of them."""

    name: str
    tally: Tally = field(default_factory=Tally)
    tokens: int = 0
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    lanes: dict[str, tuple[int, int]] = field(default_factory=dict)
    columns: list[tuple[npt.NDArray[np.generic], ...]] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    advice: dict[str, str] = field(default_factory=dict)

    def add(self, found: Found) -> None:
        """Take in the next part."""
        self.others += [other._replace(row=other.row + self.tally.rows) for other in found.others]
        self.tally.add(found.tally)
        self.tokens += found.tokens
        longer, shorter = sorted((self.counts, found.counts), key=len, reverse=True)
        self.counts = longer.copy()
        self.counts[: len(shorter)] += shorter
        for lane, (rows, cut) in found.lanes.items():
            before = self.lanes.get(lane, (0, 0))
            self.lanes[lane] = (before[0] + rows, before[1] + cut)
        self.columns.append((found.hashes, found.answers, found.prompts, found.lengths, found.places, found.journaled))

    def column(self, number: int) -> npt.NDArray[np.generic]:
        """0 the hash of a row, 1 of its answer, 2 of its prompt, 3 the answer's length, 4 its place, 5 the hash of the
        journaled answer."""
        return np.concatenate([columns[number] for columns in self.columns] or [np.zeros(0, np.int64)])


def repeated(wholes: list[Whole]) -> None:
    """Rows that are the same, and long answers that stand behind several prompts, over all datasets."""
    if not wholes:
        return
    owner = np.repeat(np.arange(len(wholes)), [whole.tally.rows for whole in wholes])
    first = np.cumsum([0, *(whole.tally.rows for whole in wholes)])
    rows, answers, prompts = (np.concatenate([whole.column(n) for whole in wholes]) for n in range(3))
    for at in _later(rows):
        whole = wholes[owner[at]]
        whole.tally.hit("duplicate", int(at - first[owner[at]]))
    # of equal rows only the first tells of an answer behind another prompt
    firsts = np.unique(rows, return_index=True)[1]
    firsts.sort()
    for at in firsts[_later(answers[firsts])]:
        whole = wholes[owner[at]]
        if len(set(prompts[(answers == answers[at])].tolist())) > 1:
            whole.tally.hit("answer-repeated", int(at - first[owner[at]]))


def _later(hashes: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """The places of hashes that stood before; 0 is none."""
    _, first = np.unique(hashes, return_index=True)
    later = np.ones(len(hashes), bool)
    later[first] = False
    return np.flatnonzero(later & (hashes != 0))


def against_ledger(whole: Whole, ledgered: Ledgered, culprit: Callable[[], Culprit]) -> None:
    """Every row that counts stands once, in the order of positions, with the answer of its own prompt. ``culprit``:
    which of the two was changed, where a row and its line in the journal differ."""
    tally, places = whole.tally, whole.column(4).astype(np.int64)
    keys = ledgered.keys
    known = np.flatnonzero(places >= 0)
    for at in known[_later(places[known] + 1)]:
        tally.hit("row-twice", int(at))
    missing = np.setdiff1d(np.arange(len(keys)), places[known])
    for place in missing.tolist():
        tally.hit("row-missing", 0, remark=ledgered.named(place))
    tally.look("row-missing", len(keys))
    once = known[np.unique(places[known], return_index=True)[1]]
    once.sort()
    for at, after in pairwise(once.tolist()):
        if places[after] < places[at]:
            tally.hit("row-order", after)
    own = set(whole.column(5).tolist())
    for other in whole.others:
        check = "re-tokenised" if other.same_text else "swapped-answer" if other.hash in own else "row-answer"
        remark = ""
        if tally.shows(check):
            remark = f"{ledgered.line(other.place)} has another answer for {ledgered.named(other.place)}"
            remark += f", from id {other.at} of the row on; {_CULPRITS[culprit()]}"
        if check not in tally.found and (advice := _differing(ledgered.line(other.place), culprit())):
            whole.advice[check] = advice
        tally.hit(check, other.row, other.ids, remark=remark)


_CULPRITS = {
    Culprit.JOURNAL: "the row is as it was built, the journal was changed",
    Culprit.ROWS: "the journal is as it was, the row was changed",
    Culprit.UNKNOWN: "which of the two was changed is not known",
}


def _differing(line: str, culprit: Culprit) -> str:
    """What to do about answers that are not those of the journal, the first of which stands in its ``line``."""
    if culprit is Culprit.ROWS:
        return REBUILD
    restore = f"restore {line}, and each other line that differs: "
    if culprit is Culprit.JOURNAL:
        return restore + "the rows have the ids that came; a rebuild would take what stands there now for the answers"
    return f"{restore}where the journal was changed; only where the rows were, {REBUILD}"


def behind_damage(whole: Whole, lines: list[str]) -> None:
    """Rows that are missing, or too many, where ``lines`` of the journal cannot be read: these come first."""
    if not lines:
        return
    more = f" and {len(lines) - 1:,} more of its lines" if len(lines) > 1 else ""
    first = f"{lines[0]}{more} cannot be read: restore that, or start the run again, which draws what is owed anew"
    for check in ("row-missing", "beyond-cut"):
        if check in whole.tally.found:
            whole.advice[check] = f"{first}; only if it is found again then, {REBUILD}"


def by_rank(whole: Whole, ids: bytes, seed: int) -> None:
    """The order of positions is that of a hash of seed and id, worked out anew."""
    places = range(0, len(ids), ID_BYTES)
    ranks = np.array([rank(seed, ids[at : at + ID_BYTES].hex()) for at in places], np.uint64)
    whole.tally.look("position-order", len(ranks))
    for at in np.flatnonzero(ranks[1:] < ranks[:-1]).tolist():
        whole.tally.hit("position-order", 0, remark=f"position {at + 1} has a lower hash than the one before")


def by_position(whole: Whole, keys: Places) -> None:
    """A rank correlation of length and position (Spearman's), which chance does not give."""
    places, lengths = whole.column(4).astype(np.int64), whole.column(3).astype(np.int64)
    known = (places >= 0) & (lengths > 0)
    if known.sum() < _MANY:
        return
    a, b = _ranks(keys[places[known]]), _ranks(lengths[known])
    if a.std() and b.std():
        rho = float(np.corrcoef(a, b)[0, 1])
        if abs(rho) * np.sqrt(len(a) - 1) > _STRICT:
            how = "longer" if rho > 0 else "shorter"
            whole.tally.hit(
                "length-by-position", 0, remark=f"{whole.name}: {how} along the order, rank correlation {rho:.2f}"
            )


def _ranks(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """The rank of each value, the mean of their ranks for equal ones."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: npt.NDArray[np.float64] = ((last - counts + last - 1) / 2)[inverse]
    return ranks


def drift(wholes: list[Whole], scripts: npt.NDArray[np.uint8] | None, names: tuple[str, ...]) -> None:
    """Datasets whose answers are much longer or shorter than those of the others, or written in another script."""
    told = [whole for whole in wholes if whole.tally.rows >= _MANY]
    for whole in told if len(told) > 1 else []:
        others = [other for other in told if other is not whole]
        own = float(np.median(whole.column(3).astype(np.int64)))
        rest = float(np.median(np.concatenate([other.column(3).astype(np.int64) for other in others])))
        if own > _FACTOR * rest or rest > _FACTOR * own:
            whole.tally.hit("length-drift", 0, remark=f"{whole.name}: median {own:,.0f} tokens, the others {rest:,.0f}")
        if scripts is None:
            continue
        mine, theirs = _scripts([whole], scripts), _scripts(others, scripts)
        apart = np.abs(mine - theirs).sum() / 2
        if apart > _SCRIPT:
            most = int((mine - theirs).argmax())
            remark = f"{whole.name}: {mine[most]:.0%} {names[most]}, the others {theirs[most]:.0%}"
            whole.tally.hit("language-drift", 0, remark=remark)


def _scripts(wholes: list[Whole], scripts: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
    """The share of each script in the supervised ids, those of no script left out."""
    total = np.zeros(8, np.float64)
    for whole in wholes:
        size = min(len(whole.counts), len(scripts))
        total += np.bincount(scripts[:size], weights=whole.counts[:size], minlength=8)
    total[0] = 0
    shares: npt.NDArray[np.float64] = total / max(total.sum(), 1)
    return shares


def coverage(counts: npt.NDArray[np.int64], forced: list[int]) -> dict[int, float]:
    """The share of supervised ids that a draft vocabulary of each size holds: the ``forced`` ids and the most frequent
    others."""
    kept = [id for id in forced if id < len(counts)]
    rest = np.delete(counts, kept)
    rest[::-1].sort()
    total, inside = int(counts.sum()), int(counts[kept].sum())
    return {size: (inside + int(rest[: max(0, size - len(forced))].sum())) / total if total else 0.0 for size in SIZES}


def left_out(counts: npt.NDArray[np.int64], ids: list[int]) -> list[int]:
    """Those of the ids that are not among the most frequent of a usual draft vocabulary."""
    if len(counts) <= _USUAL_SIZE:
        return []
    order = np.sort(counts)[::-1]
    least = max(1, int(order[_USUAL_SIZE - 1]))
    return [id for id in ids if id >= len(counts) or counts[id] < least]
