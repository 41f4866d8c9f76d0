"""When a run will be done: what is left to generate over the rate of this start, the drain of the last answers, and a
range around it that should hold nine times in ten.

While there is more to send than fits, the servers work at their rate. Then the answers in flight drain, and the
longest of them decides, however few tokens that is: so the end is ``(left - drained) / rate + longest · step``.
"""

from collections.abc import Sequence
from math import hypot, sqrt

import msgspec
import numpy as np

from draftmill.watch.figures import DatasetFigures, EngineFigures, Eta
from draftmill.watch.lengths import EDGES, Histogram

_NINE_IN_TEN = 1.645  # standard deviations
_WARM = 60.0  # seconds of a start in which its rate says nothing
_LATER_PART = 2 / 3  # of a start whose rate is believed: not its beginning, while the servers fill
_WINDOWS = 6  # of that part: how much their rates differ says how far the rest may
_DRIFT = 0.02  # by which the rest differs at least
_SETTLING = 300.0  # seconds after which a start's rate is settled
_LOW, _MIDDLE, _HIGH = 3.0, 0.69, 0.051  # how many of the last answers are longer than the 5th, 50th and 95th of 100
# longest ones: of n independent answers none is longer than x with the probability exp(-n · survival(x))
_ONE_BY_ONE = 2.0  # answers' lengths by which a budget's end is later: it lets the last ones go one after the other
_UNMIXED = (0.25, 0.4, 0.75)  # how far mixed datasets still end as if each had its own answers in flight: at least,
# likely and at most, since a long answer may be sent among the last ones all the same
_LATER = 0.4  # of the load at which the last answers are decoded, seen over the whole drain


class Work(msgspec.Struct, frozen=True):
    """What is known of one dataset: its figures, the lengths of its answers, and, where the run says so, the tokens
    that are still to come of it."""

    figures: DatasetFigures
    lengths: Histogram
    left: float | None = None


Drain = tuple[float, tuple[float, float, float]]


class Pace(msgspec.Struct, frozen=True):
    """How fast a start is: tokens a second, and a standard deviation of what the rest of it will differ by."""

    rate: float
    drift: float


def pace(progress: Sequence[tuple[float, float]]) -> Pace | None:
    """The pace of a start whose (time, tokens) are these; None before there is one."""
    if len(progress) < 2 or progress[-1][0] - progress[0][0] < _WARM:
        return None
    times, tokens = np.array(progress, dtype=float).T
    elapsed = times[-1] - times[0]
    edges = np.linspace(times[-1] - _LATER_PART * elapsed, times[-1], _WINDOWS + 1)
    rates = np.diff(np.interp(edges, times, tokens)) / np.diff(edges)
    rate = float(rates.mean())
    if rate <= 0:
        return None
    drift = float(rates.std(ddof=1)) / rate / sqrt(_WINDOWS)
    return Pace(rate, hypot(drift, _DRIFT * (1 + _SETTLING / elapsed)))


def foresee(work: list[Work], engines: list[EngineFigures], pace: Pace | None, *, together: bool = True) -> Eta | None:
    """The end of all datasets; None while nothing can be said of it, or nothing is left. ``together``: they are mixed
    so that none is left alone at the end."""
    left = [_left(w) for w in work]
    if pace is None or None in left:
        return None
    each = [x or 0.0 for x in left]
    remaining = sum(each)
    if not remaining:
        return None
    flying = sum(w.figures.growing_answers for w in work) or sum(e.in_flight or e.running or 0 for e in engines)
    running = sum(e.running or 0 for e in engines) or flying
    drained, longest = _drain(work, each, flying)
    if together and len([x for x in each if x]) > 1:
        drained, longest = _mixed(work, each, flying, (drained, longest))
    step = _step(engines, running, pace.rate)
    low, tail, high = (tokens * step for tokens in longest)
    full = max(0.0, remaining - drained) / pace.rate
    seconds = max(full + tail, remaining / pace.rate)
    unknown = sqrt(sum(_unknown(w, x) ** 2 for w, x in zip(work, each, strict=True))) / pace.rate
    spread = _NINE_IN_TEN * hypot(unknown, pace.drift * seconds)
    below, above = hypot(spread, tail - low), hypot(spread, high - tail)
    return Eta(seconds, max(0.0, seconds - below), seconds + above, remaining)


def alone(work: Work, rate: float | None) -> Eta | None:
    """One dataset at its own rate; without a range of its own, since its share of the servers changes."""
    left = _left(work)
    if left is None or not rate:
        return None
    seconds = left / rate
    return Eta(seconds, 0.8 * seconds, 1.2 * seconds, left)


def _left(work: Work) -> float | None:
    """Tokens that a dataset is still to generate."""
    d = work.figures
    if work.left is not None:
        return float(work.left)
    if d.owed is None:
        return None
    if not d.owed:
        return 0.0
    mean = d.lengths.mean if d.lengths else None
    by_prompts = d.owed * mean - d.growing if mean else None
    by_budget = float(max(0, d.budget - d.counted - d.growing)) if d.budget else None
    known = [max(0.0, x) for x in (by_prompts, by_budget) if x is not None]
    return min(known) if known else None


def _unknown(work: Work, left: float) -> float:
    """A standard deviation of what is left, in tokens: of the mean that is believed, and of the answers to come."""
    lengths = work.lengths
    if not left or lengths.count < 2:
        return left / 2
    mean = lengths.total / lengths.count
    deviation = _deviation(lengths, mean)
    d = work.figures
    if d.budget and d.owed and d.owed * mean > 1.05 * left:  # the budget ends it, whatever the lengths are
        return deviation
    owed = left / mean
    return deviation * sqrt(owed + owed * owed / lengths.count)


def _deviation(lengths: Histogram, mean: float) -> float:
    return float(np.sqrt(np.average((EDGES - mean) ** 2, weights=lengths.counts)))


def _drain(work: list[Work], left: list[float], flying: int) -> Drain:
    """(tokens that the answers in flight still get once nothing is left to be sent, those that the longest of them
    gets: rather few, likely, rather many).

    What is left of an answer that is seen at some moment is longer than x with the share of the area of the survival
    curve behind x. The answers in flight then are taken to be of the datasets as those now are.
    """
    answers = sum(w.figures.growing_answers for w in work)
    draining = sum(w.figures.owed or 0 for w in work) <= answers
    widths = np.diff(EDGES, append=EDGES[-1])
    tokens, budgeted, beyond = 0.0, list[float](), np.zeros(len(EDGES))
    for w, rest in zip(work, left, strict=True):
        if not rest or not w.lengths.count:
            continue
        mean = w.lengths.total / w.lengths.count
        number = float(w.figures.growing_answers if answers else flying / max(1, sum(x > 0 for x in left)))
        if not draining:
            number = min(number, 2 * rest / mean)
            budgeted += [mean] if w.figures.budget else []
        alive = 1 - np.cumsum(w.lengths.counts) / w.lengths.count
        area = np.cumsum((alive * widths)[::-1])[::-1]
        if not area[0]:
            continue
        residual = area / area[0]
        beyond += number * residual
        tokens += number * float((residual * widths).sum())
    later = _ONE_BY_ONE * min(budgeted, default=0.0)
    low, middle, high = (_longest(beyond, many) + later for many in (_LOW, _MIDDLE, _HIGH))
    return min(tokens, sum(left)), (low, middle, high)


def _mixed(work: list[Work], left: list[float], flying: int, apart: Drain) -> Drain:
    """The drain where long answers are sent early, so that the last ones are mostly of the dataset with the shortest.

    ``apart`` is what it would be without that.
    """
    total = sum(left)
    alone = [
        _drain([_with_all(w, flying)], [total], 0)
        for w, rest in zip(work, left, strict=True)
        if rest and w.lengths.count
    ]
    if not alone:
        return apart
    drained, longest = min(alone, key=lambda drain: drain[1][1])
    low, middle, high = (
        (1 - share) * short + share * long for share, short, long in zip(_UNMIXED, longest, apart[1], strict=True)
    )
    share = _UNMIXED[1]
    return (1 - share) * drained + share * apart[0], (low, middle, high)


def _with_all(work: Work, flying: int) -> Work:
    """As if all answers in flight were of this dataset."""
    return msgspec.structs.replace(work, figures=msgspec.structs.replace(work.figures, growing_answers=flying))


def _longest(beyond: "np.ndarray", many: float) -> float:
    """The length that so many of the answers exceed."""
    behind = np.nonzero(beyond < many)[0]
    return float(EDGES[behind[0]]) if len(behind) else 0.0


def _step(engines: list[EngineFigures], running: int, rate: float) -> float:
    """Seconds a token of one answer while the last ones drain."""
    fits = [(e.base, e.each, e.running or 0) for e in engines if e.base is not None and e.each is not None]
    if fits:
        return sum(base + _LATER * each * n for base, each, n in fits) / len(fits)
    return 0.8 * max(1, running) / rate
