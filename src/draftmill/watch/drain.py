"""The end of a run, when nothing is left to be sent: the answers in flight end one after the other, the longest last.

It is played through many times with lengths drawn from those seen, since no formula has it: a budget sends another
answer whenever those in flight turn out shorter than was expected of them, and the fewer run, the faster each grows.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from draftmill.watch.lengths import EDGES, Histogram

DRAWS = 64  # times that an end is played; more moves a range by less than a per cent of itself
MOST = 96  # answers that are played one by one; of more, all but the last ones end as their lengths say on average
_GRID = 512  # places of the table that says what is expected of an answer that is so long already
_EVENTS = 4 * MOST  # ends at which a play is cut off: a budget sends about as many again as are in flight


class Part(msgspec.Struct, frozen=True):
    """One dataset's share of the last answers: how many of it are in flight when nothing more is sent, tokens that each
    grew since its last one was sent (``lead``), and whether a ``budget`` ends it, which may send another. ``ages``:
    the tokens that each has, where that is known; each token counts ``weight``."""

    name: str
    lengths: Histogram
    number: float
    lead: float = 0.0
    budget: bool = False
    ages: tuple[int, ...] = ()
    weight: float = 1.0


class Drain(msgspec.Struct, frozen=True):
    """By draw: seconds until the last answer ends, and tokens that were counted on of those in flight."""

    seconds: np.ndarray
    tokens: np.ndarray


def drain(parts: Sequence[Part], step: Callable[[np.ndarray], np.ndarray], draws: int = DRAWS) -> Drain:
    """Play the end. ``step``: seconds in which each of so many answers grows by a token."""
    parts = [p for p in parts if p.lengths.count and p.number > 0]
    whole = sum(p.number for p in parts)
    if not parts:
        return Drain(np.zeros(draws), np.zeros(draws))
    chance = np.random.default_rng(0)  # the same draws at each look: a range must not jitter
    before, seconds, tokens = (0.0, 0.0, 0.0) if whole <= MOST else _fall(parts, step, whole)
    share = min(1.0, MOST / whole)
    each = [_Each(p, before) for p in parts]
    numbers = _round([p.number * share for p in parts])
    owner = np.repeat(np.arange(len(parts)), numbers)
    ages, totals = (
        np.concatenate(found, axis=1)
        for found in zip(*[e.begun(chance, draws, n) for e, n in zip(each, numbers, strict=True)], strict=True)
    )
    return _play(each, owner, ages, totals, chance, step, seconds, tokens)


class _Each:
    """What is to be known of one dataset's lengths: draws of them, and what is expected of an answer by its age."""

    def __init__(self, part: Part, before: float) -> None:
        used = np.nonzero(part.lengths.counts)[0]
        self.lengths = EDGES[used].astype(float)
        self._weights = part.lengths.counts[used].astype(float)
        self._sum = np.cumsum(self._weights)
        self.budget, self.weight = part.budget, part.weight
        self._lead, self._ages = part.lead + before, np.array(part.ages, dtype=float)
        self.mean = float(np.average(self.lengths, weights=self._weights))
        self.per = _GRID / (self.lengths[-1] + 1)
        ages = np.arange(_GRID) / self.per
        first = np.searchsorted(self.lengths, ages, side="right")
        tokens = np.append(np.cumsum((self._weights * self.lengths)[::-1])[::-1], 0.0)
        number = np.append(np.cumsum(self._weights[::-1])[::-1], 0.0)
        self.expected = np.where(number[first] > 0, tokens[first] / np.maximum(number[first], 1e-9), ages)

    def drawn(self, chance: np.random.Generator, number: int) -> np.ndarray:
        """Lengths of answers of which nothing is known."""
        at = np.searchsorted(self._sum, chance.random(number) * self._sum[-1], side="right")
        return self.lengths[np.minimum(at, len(self.lengths) - 1)]

    def begun(self, chance: np.random.Generator, draws: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(ages, whole lengths) of so many in flight, in each draw: as one finds them at any moment, long ones
        oftener than short ones, and none younger than the last that was sent."""
        shape = draws, number
        if len(self._ages) and number:
            ages = np.broadcast_to(np.resize(self._ages, number), shape).copy()
            below = np.append(0.0, self._sum)[np.searchsorted(self.lengths, ages, side="right")]
            at = np.searchsorted(self._sum, below + chance.random(shape) * (self._sum[-1] - below), side="right")
            totals = self.lengths[np.minimum(at, len(self.lengths) - 1)]
            return ages, np.maximum(totals, ages + 1)
        lead = min(self._lead, float(self.lengths[-1]) - 1)
        sums = np.cumsum(self._weights * np.maximum(0.0, self.lengths - lead))
        at = np.searchsorted(sums, chance.random(shape) * sums[-1], side="right")
        totals = self.lengths[np.minimum(at, len(self.lengths) - 1)]
        return lead + chance.random(shape) * (totals - lead), totals


def _play(
    each: list[_Each],
    owner: np.ndarray,
    ages: np.ndarray,
    totals: np.ndarray,
    chance: np.random.Generator,
    step: Callable[[np.ndarray], np.ndarray],
    seconds: float,
    tokens: float,
) -> Drain:
    draws, number = ages.shape
    rows = np.arange(draws)
    table = np.concatenate([e.expected for e in each])
    start, per = owner * _GRID, np.array([e.per for e in each])[owner]
    budget = np.array([e.budget for e in each])
    means = np.array([e.mean for e in each])
    fresh = [e.drawn(chance, draws * 64).reshape(draws, 64) for e in each]
    most = start + _GRID - 1

    def expected(of: np.ndarray) -> np.ndarray:
        return np.maximum(table[np.minimum(start + (of * per).astype(np.int64), most)], of)

    members = [owner == n for n in range(len(each))]
    hope = expected(ages)
    want = np.stack([hope[:, m].sum(axis=1) for m in members], axis=1) - chance.random((draws, len(each))) * means
    counted = np.full(draws, tokens)
    for n, m in enumerate(members):
        known = hope if each[n].budget else totals
        counted += each[n].weight * (known[:, m] - ages[:, m]).sum(axis=1)
    landed = np.zeros((draws, len(each)))
    alive = np.ones((draws, number), dtype=bool)
    sent = np.zeros(draws, dtype=np.int64)
    passed = np.full(draws, seconds)
    left = totals - ages
    for _ in range(_EVENTS):
        running = alive.sum(axis=1)
        if not running.any():
            break
        gone = left.argmin(axis=1)
        by = np.where(running > 0, left[rows, gone], 0.0)
        passed += by * step(running)
        left -= by[:, None]
        ages = ages + by[:, None]
        whose = owner[gone]
        on = running > 0
        landed[rows[on], whose[on]] += totals[rows, gone][on]
        alive[rows, gone] = False
        left[rows, gone] = np.inf
        asks = on & budget[whose]
        if not asks.any():
            continue
        mine = (owner[None, :] == whose[:, None]) & alive
        there = landed[rows, whose] + (expected(ages) * mine).sum(axis=1)
        short = np.nonzero(asks & (there < want[rows, whose]))[0]
        for n in range(len(each)):
            again = short[whose[short] == n]
            if len(again):
                slot, new = gone[again], fresh[n][again, sent[again] % 64]
                totals[again, slot], left[again, slot], ages[again, slot], alive[again, slot] = new, new, 0.0, True
                sent[again] += 1
    return Drain(passed, counted)


def _fall(
    parts: Sequence[Part], step: Callable[[np.ndarray], np.ndarray], whole: float
) -> tuple[float, float, float]:
    """(tokens that each grows, seconds, tokens of all) until only as many run as are played one by one."""
    widths = np.diff(EDGES, append=EDGES[-1]).astype(float)
    running = np.zeros(len(EDGES))
    for p in parts:
        alive = 1 - np.cumsum(p.lengths.counts) / p.lengths.count
        area = np.append(np.cumsum((alive * widths)[::-1])[::-1], 0.0)
        behind = np.interp(EDGES + p.lead, np.append(EDGES, EDGES[-1] + 1), area)
        running += p.number * behind / max(behind[0], 1e-9)
    last = int(np.nonzero(running < MOST)[0][0])
    grown = running[:last] * widths[:last]
    return float(EDGES[last]), float((step(running[:last]) * widths[:last]).sum()), float(grown.sum())


def _round(numbers: list[float]) -> list[int]:
    """Whole numbers of the same sum, each as near as may be; at least one of each."""
    ends = np.round(np.cumsum(numbers)).astype(int)
    return [max(1, int(n)) for n in np.diff(ends, prepend=0)]
