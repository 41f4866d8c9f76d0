"""The end of a run, when nothing is left to be sent: the answers in flight end one after the other, the longest last.

It is played through many times with lengths drawn from those seen, since no formula has it: a budget sends another
answer whenever those in flight turn out shorter than was expected of them, and the fewer run, the faster each grows.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from draftmill.watch.lengths import EDGES, Histogram

DRAWS = 64  # times that an end is played; more moves a range by less than a per cent of itself
MOST = 96  # answers that are played one by one; of more, all but the last ones end as their lengths say on average
_GRID = 512  # places of the table that says what is expected of an answer that is so long already
_AGAIN = 64  # answers that a budget sends beyond its first forecast, at most


class Part(msgspec.Struct, frozen=True):
    """One dataset's share of the last answers: how many are in flight when its last one was sent, tokens that each grew
    from then until the last one of all was sent (``lead``), and whether a ``budget`` ends it, which may send another.
    ``ages``: the tokens that each has, where that is known. A token counts ``weight``."""

    name: str
    lengths: Histogram
    number: float
    lead: float = 0.0
    budget: bool = False
    ages: tuple[int, ...] = ()
    weight: float = 1.0


class Drain(msgspec.Struct, frozen=True):
    """By draw: seconds from the last prompt of all to the end of the last answer, and tokens of those that are still to
    come now which are generated meanwhile; less what budgets make generated before, beyond their own."""

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
    numbers = _round([p.number * min(1.0, MOST / whole) for p in parts])
    each = [_Each(p, before) for p in parts]
    played = _play(each, numbers, chance, draws)
    return Drain(seconds + _seconds(played, step), tokens + played.counted)


class _Played(NamedTuple):
    """By draw: when each answer begins and ends, in tokens that each grows after the last prompt of all was sent (those
    that begin and end at once are none), and ``Drain.tokens``."""

    begins: np.ndarray
    ends: np.ndarray
    counted: np.ndarray


class _Each:
    """What is to be known of one dataset's lengths: draws of them, and what is expected of an answer by its age."""

    def __init__(self, part: Part, before: float) -> None:
        used = np.nonzero(part.lengths.counts)[0]
        self.lengths = EDGES[used].astype(float)
        self._weights = part.lengths.counts[used].astype(float)
        self._sum = np.cumsum(self._weights)
        self.budget, self.weight = part.budget, part.weight
        self.lead, self._youngest = part.lead, before
        self._ages = np.array(part.ages, dtype=float)
        self.mean = float(np.average(self.lengths, weights=self._weights))
        self.per = _GRID / (self.lengths[-1] + 1)
        ages = np.arange(_GRID) / self.per
        first = np.searchsorted(self.lengths, ages, side="right")
        tokens = np.append(np.cumsum((self._weights * self.lengths)[::-1])[::-1], 0.0)
        number = np.append(np.cumsum(self._weights[::-1])[::-1], 0.0)
        self.expected = np.where(number[first] > 0, tokens[first] / np.maximum(number[first], 1e-9), ages)

    def drawn(self, chance: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Lengths of answers of which nothing is known."""
        return self._at(np.searchsorted(self._sum, chance.random(shape) * self._sum[-1], side="right"))

    def _at(self, place: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.lengths[np.minimum(place, len(self.lengths) - 1)]
        return found

    def begun(self, chance: np.random.Generator, draws: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(ages, whole lengths) of so many in flight, in each draw: as one finds them at any moment, long ones
        oftener than short ones, and none younger than the last that was sent."""
        shape = draws, number
        if len(self._ages) and number:
            known = np.append(self._ages, np.zeros(number))[:number]  # the others have just begun
            ages = np.tile(known, (draws, 1))
            below = np.append(0.0, self._sum)[np.searchsorted(self.lengths, ages, side="right")]
            drawn = below + chance.random(shape) * (self._sum[-1] - below)
            return ages, np.maximum(self._at(np.searchsorted(self._sum, drawn, side="right")), ages + 1)
        youngest = min(self._youngest, float(self.lengths[-1]) - 1)
        sums = np.cumsum(self._weights * np.maximum(0.0, self.lengths - youngest))
        totals = self._at(np.searchsorted(sums, chance.random(shape) * sums[-1], side="right"))
        return youngest + chance.random(shape) * (totals - youngest), totals


def _play(each: "list[_Each]", numbers: list[int], chance: np.random.Generator, draws: int) -> _Played:
    """The last answers of some datasets in each draw.

    All datasets are played at once, each in rows of its own and on its own clock: how fast answers grow does not matter
    to which of them is the next to end.
    """
    wide, rows = max(numbers), draws * len(each)
    ages, totals = np.zeros((rows, wide)), np.full((rows, wide), np.inf)
    for n, (of, number) in enumerate(zip(each, numbers, strict=True)):
        own = slice(n * draws, (n + 1) * draws)
        ages[own, :number], totals[own, :number] = of.begun(chance, draws, number)
    begins, ends = -ages, totals - ages
    there = np.isfinite(ends)
    table = np.concatenate([of.expected for of in each])
    per = np.repeat([of.per for of in each], draws)[:, None]
    first = np.repeat(np.arange(len(each)) * _GRID, draws)[:, None]

    def hope(now: np.ndarray) -> np.ndarray:
        """The tokens that those in flight are expected to have in the end."""
        old = np.where(np.isfinite(ends), now - begins, 0.0)
        place = first + np.minimum((old * per).astype(np.int64), _GRID - 1)
        hoped: np.ndarray = np.where(np.isfinite(ends), np.maximum(table[place], old), 0.0).sum(axis=1)
        return hoped

    hoped = hope(np.zeros((rows, 1)))
    want = hoped - chance.random(rows) * np.repeat([of.mean for of in each], draws)
    fresh = np.concatenate([of.drawn(chance, (draws, _AGAIN)) for of in each])
    seen_begins, seen_ends = [begins.copy()], [np.where(there, ends, begins)]
    whole, row = np.arange(rows), np.repeat([of.budget for of in each], draws)
    landed, sent = np.zeros(rows), np.zeros(rows, dtype=np.int64)
    for _ in range(wide + _AGAIN if row.any() else 0):
        gone = ends.argmin(axis=1)
        now = ends[whole, gone]
        on = row & np.isfinite(now) & (sent < _AGAIN)
        if not on.any():
            break
        landed[on] += (now - begins[whole, gone])[on]
        ends[whole[on], gone[on]] = np.inf
        again = np.nonzero(on & (landed + hope(np.where(on, now, 0.0)[:, None]) < want))[0]
        if len(again):
            begins[again, gone[again]] = now[again]
            ends[again, gone[again]] = now[again] + fresh[again, sent[again]]
            sent[again] += 1
            more = np.zeros((2, rows, 1))  # nothing, where nothing is sent
            more[0, again, 0], more[1, again, 0] = now[again], ends[again, gone[again]]
            seen_begins.append(more[0])
            seen_ends.append(more[1])
    lead = np.repeat([of.lead for of in each], draws)[:, None]
    begins, ends = np.concatenate(seen_begins, axis=1), np.concatenate(seen_ends, axis=1)
    before = np.maximum(0.0, np.minimum(ends, lead) - np.maximum(begins, 0.0)).sum(axis=1)
    known = np.where(row, want, np.where(there, totals, 0.0).sum(axis=1)) - ages.sum(axis=1)
    counted = np.repeat([of.weight for of in each], draws) * (known - before)
    begins, ends = (np.concatenate(np.split(side - lead, len(each)), axis=1) for side in (begins, ends))
    return _Played(begins, ends, counted.reshape(len(each), draws).sum(axis=0))


def _seconds(played: _Played, step: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Until the last end, by draw."""
    begins, ends = played.begins, played.ends
    times = np.concatenate([np.maximum(0.0, begins), np.maximum(0.0, ends)], axis=1)
    order = np.argsort(times, axis=1, kind="stable")
    times = np.take_along_axis(times, order, axis=1)
    running = np.cumsum(np.where(order < begins.shape[1], 1, -1), axis=1)[:, :-1]
    seconds: np.ndarray = (np.diff(times, axis=1) * step(np.maximum(0, running))).sum(axis=1)
    return seconds


def _fall(parts: Sequence[Part], step: Callable[[np.ndarray], np.ndarray], whole: float) -> tuple[float, float, float]:
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
