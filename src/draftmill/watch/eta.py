"""When a run will be done: what is left to generate over the rate of this start, then the drain of the last answers,
and a range around it that should hold nine times in ten.

While there is more to send than fits, the servers work at their rate, and what is left is known up to the lengths of
the answers to come, or exactly where a budget ends it. Then the answers in flight drain (``watch.drain``). The range is
the middle nine tenths of all ends that lengths, rate and drain leave open together.
"""

from collections.abc import Callable, Sequence
from math import exp, hypot, sqrt
from statistics import NormalDist, median

import msgspec
import numpy as np

from draftmill.watch.drain import Part, drain
from draftmill.watch.figures import DatasetFigures, EngineFigures, Eta
from draftmill.watch.lengths import EDGES, Histogram

_OUTSIDE = 0.01  # of all ends, on each side of the range
_NORMAL = np.array([NormalDist().inv_cdf((n + 0.5) / 32) for n in range(32)])
_WARM = 60.0  # seconds of a start in which its rate says nothing
_LATER_PART = 2 / 3  # of a start whose rate is believed: not its beginning, while the servers fill
_WINDOWS = 8  # parts of it: how much their rates differ says how far the rest may
_LONGEST = 0.98  # of a dataset's answers are shorter than the one that its rate has settled with
_DRIFT, _DRIFT_FULL = 0.005, 0.02  # by which the rest differs at least, with as many at once, or as a full cache holds
_EARLY = 0.6  # of the time at which a start ends too early by its own word at most, while its first long answers grow:
# only short answers have ended, and more young ones fit into the servers than old ones, a half of it each
_SLOWER = 0.2  # by which the last steps are slower at most: a fit to loads takes prompts between two steps for them
_EVENLY = (0.125, 0.375, 0.625, 0.875)  # of what may be later at most
_LONG = 0.9  # of a dataset's answers are shorter than what the order of dispatch takes for a long one (mill.stream)
_MOST_LEAD = 0.5  # mill.mixing
_FULL = 0.65  # of its KV cache, which then bounds how many run: a governor leaves room for what grows
_UNLOADED = 0.75  # of a step's seconds at full load, that of one answer alone, where no fit says it


class Work(msgspec.Struct, frozen=True):
    """What is known of one dataset: its figures, the lengths of its answers, and, where the run says so, the tokens
    that are still to come of it, and those that this start has ``done``. ``ages`` are the tokens that each of its
    unfinished answers has."""

    figures: DatasetFigures
    lengths: Histogram
    left: float | None = None
    done: float = 0.0
    ages: tuple[int, ...] = ()


class Pace(msgspec.Struct, frozen=True):
    """How fast a start is: tokens a second over the last ``window`` of its ``elapsed`` seconds, of which ``_WINDOWS``
    parts differed by ``noise``, a share of the rate (a standard deviation)."""

    rate: float
    noise: float = 0.0
    window: float = 3600.0
    elapsed: float = 7200.0
    settling: float = 0.0

    @property
    def early(self) -> float:
        """By what share of the time the end may be later, since the start has not settled."""
        return _EARLY * exp(-self.elapsed / max(1.0, 2 * self.settling))

    def drift(self, seconds: float, floor: float) -> float:
        """By what share so many seconds to come will differ from it: a standard deviation. What the parts of the window
        differed by is chance, of which longer times have less."""
        part = self.window / _WINDOWS
        chance = self.noise * sqrt(1 / _WINDOWS + min(1.0, part / max(1.0, seconds)))
        return hypot(chance, floor)


def pace(progress: Sequence[tuple[float, float]], settling: float = 0.0) -> Pace | None:
    """The pace of a start whose (time, tokens) are these; None before there is one. ``settling``: seconds after which
    its servers hold as they will for the rest, old answers beside young ones."""
    if len(progress) < 2 or progress[-1][0] - progress[0][0] < _WARM:
        return None
    times, tokens = np.array(progress, dtype=float).T
    elapsed = float(times[-1] - times[0])
    window = elapsed - max((1 - _LATER_PART) * elapsed, min(settling, _LATER_PART * elapsed))
    edges = np.linspace(times[-1] - window, times[-1], _WINDOWS + 1)
    rates = np.diff(np.interp(edges, times, tokens)) / np.diff(edges)
    rate = float(rates.mean())
    return Pace(rate, float(rates.std(ddof=1)) / rate, window, elapsed, settling) if rate > 0 else None


def settling(work: list[Work], engines: list[EngineFigures]) -> float:
    """Seconds in which a long answer grows."""
    rate = sum(e.mean_rate or 0.0 for e in engines)
    tokens = sum(w.lengths.total for w in work)
    longest = sum(w.lengths.quantile(_LONGEST) * w.lengths.total for w in work) / max(1, tokens)
    return longest * sum(_usual(e) for e in engines) / rate if rate else 0.0


def foresee(
    work: list[Work], engines: list[EngineFigures], pace: Pace | None, *, together: bool = True, since: float = 0.0
) -> Eta | None:
    """The end of all datasets; None while nothing can be said of it, or nothing is left. ``together``: they are mixed
    so that none is left alone at the end. ``since``: seconds ago that what is left was said."""
    left = [_left(w) for w in work]
    if pace is None or None in left:
        return None
    each = [x or 0.0 for x in left]
    remaining = sum(each)
    if not remaining:
        return None
    weight = weights(work, engines)
    usual = sum(_usual(e) for e in engines) or float(sum(w.figures.growing_answers for w in work))
    step = _step(engines, usual, pace.rate)
    open_work = [(w, x) for w, x in zip(work, each, strict=True) if x and w.lengths.count]
    parts = _last(open_work, usual, weight) if together else _lane_by_lane(open_work, usual)
    end = drain([msgspec.structs.replace(p, weight=weight.get(p.name, 1.0)) for p in parts], step)
    due = sum(x * weight.get(w.figures.name, 1.0) for w, x in zip(work, each, strict=True))
    if due <= float(end.tokens.mean()):  # nothing is sent any more, but where a budget falls short
        end = drain(_now(open_work, engines), step)
        full, unknown = np.zeros_like(end.seconds), 0.0
    else:
        full = np.maximum(0.0, due - end.tokens) / pace.rate
        unknown = sqrt(sum(_unknown(w, x) ** 2 for w, x in zip(work, each, strict=True))) / pace.rate
    early = pace.early if weight else pace.early / 2
    slower = _SLOWER if any(e.base is not None for e in engines) else 1 / _UNLOADED - 1
    ends = (full + end.seconds)[:, None] + np.array(_EVENLY) * (full * early + slower * end.seconds)[:, None]
    bulk = float(full.mean())
    spread = hypot(unknown, pace.drift(bulk, _DRIFT_FULL if weight else _DRIFT) * bulk)
    found = np.quantile(ends[..., None] + spread * _NORMAL, (_OUTSIDE, 0.5, 1 - _OUTSIDE))
    low, middle, high = (max(0.0, float(seconds) - since) for seconds in found)
    return Eta(middle, low, high, remaining)


def weights(work: list[Work], engines: list[EngineFigures]) -> dict[str, float]:
    """What a token of each dataset takes of the servers' time, those done so far taking 1 on average.

    A step takes ``base + each · running`` seconds. Where the KV cache is full, ``running`` is what it holds over what
    an answer holds there on average, its prompt included: then a token takes ``each`` and a share of ``base`` that is
    in proportion to what its dataset's answers hold.
    """
    seen = [(w.figures.name, w.lengths.total, _held(w)) for w in work if w.lengths.count]
    full = [e for e in engines if (_cache(e) or 0.0) >= _FULL]
    if not full or len(full) < len(engines):
        return {}
    gains = [gain for e in full if (gain := e.gain()) is not None]
    gain = sum(gains) / len(gains) if gains else _UNLOADED
    mean = sum(tokens * held for _, tokens, held in seen) / max(1, sum(tokens for _, tokens, _ in seen))
    return {name: 1 + gain * (held / mean - 1) for name, _, held in seen} if mean else {}


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


def _by_budget(d: DatasetFigures, mean: float, left: float) -> bool:
    """Whether its budget ends it, and not its prompts, of which there are enough."""
    return bool(d.budget and d.owed and d.owed * mean > 1.05 * (left + d.growing))


def _unknown(work: Work, left: float) -> float:
    """A standard deviation of what is left, in tokens: of the mean that is believed, and of the answers to come."""
    lengths = work.lengths
    if not left:
        return 0.0
    if lengths.count < 2:
        return left / 2
    mean = lengths.total / lengths.count
    if _by_budget(work.figures, mean, left):  # whatever the lengths are
        return 0.0
    deviation = float(np.sqrt(np.average((EDGES - mean) ** 2, weights=lengths.counts)))
    owed = left / mean
    return deviation * sqrt(owed + owed * owed / lengths.count)


def _last(work: list[tuple[Work, float]], flying: float, weight: dict[str, float]) -> list[Part]:
    """What is in flight when the last answer was sent, where all datasets are mixed: those with long answers sent
    their last ones earlier (``mill.mixing``), and those with the shortest ones fill the places."""
    wholes = [w.done + left for w, left in work]
    chains = [w.lengths.quantile(_LONG) for w, _ in work]
    leads = [min(_MOST_LEAD, (c - min(chains)) * flying / sum(wholes)) for c in chains]
    held = [weight.get(w.figures.name, 1.0) for w, _ in work]
    most = sum(own * h for own, h in zip(wholes, held, strict=True))
    room, rest = flying * most / sum(wholes), most
    parts, ahead = list[Part](), list[tuple[Histogram, float, float, float]]()
    for n in sorted(range(len(work)), key=lambda n: -leads[n]):
        grown = sum(o * max(0.0, leads[n] - le) / (1 - le) for o, le in zip(wholes, leads, strict=True)) / flying
        taken = sum(h * number * _older(of, then - grown) for of, number, then, h in ahead)
        number = max(0.0, room - taken) * wholes[n] / rest
        parts.append(_part(*work[n], number, grown))
        ahead.append((work[n][0].lengths, number, grown, held[n]))
        rest -= wholes[n] * held[n]
    return parts


def _lane_by_lane(work: list[tuple[Work, float]], flying: float) -> list[Part]:
    """The same where each lane sends one dataset after the other."""
    last = {w.figures.lane: (w, left) for w, left in work}
    rest = sum(left for _, left in last.values())
    return [_part(w, left, flying * left / rest) for w, left in last.values()]


def _now(work: list[tuple[Work, float]], engines: list[EngineFigures]) -> list[Part]:
    """What is in flight. Answers of which nothing is in the journal have just begun, or never tell while they grow."""
    told = sum(w.figures.growing_answers for w, _ in work)
    untold = max(0, sum(e.in_flight or 0 for e in engines) - told)
    rest = sum(left for _, left in work)
    numbers = [w.figures.growing_answers + untold * left / rest for w, left in work]
    if not told + untold:
        numbers = [left / _residual(w.lengths) for w, left in work]
    return [_part(w, left, number, ages=w.ages) for (w, left), number in zip(work, numbers, strict=True)]


def _part(work: Work, left: float, number: float, lead: float = 0.0, ages: tuple[int, ...] = ()) -> Part:
    mean = work.lengths.total / work.lengths.count
    return Part(work.figures.name, work.lengths, number, lead, _by_budget(work.figures, mean, left), ages)


def _older(lengths: Histogram, age: float) -> float:
    """The share of a dataset's answers in flight that have at least so many tokens already."""
    rest = lengths.counts * np.maximum(0.0, EDGES - age)
    return float(rest.sum() / max(1, (lengths.counts * EDGES).sum()))


def _residual(lengths: Histogram) -> float:
    """Tokens that an answer in flight still gets on average."""
    squares, sums = (lengths.counts * EDGES.astype(float) ** 2).sum(), max(1, lengths.total)
    return max(1.0, float(squares / 2 / sums))


def _held(work: Work) -> float:
    """Tokens that an answer under way holds of the KV cache on average."""
    prompts = work.figures.prompt_lengths
    return (prompts.mean if prompts else 0.0) + _residual(work.lengths)  # what it has, as what it gets: the same


def _cache(engine: EngineFigures) -> float | None:
    """The share of its KV cache that was in use lately."""
    seen = [use for *_, use, _ in engine.history if use is not None]
    return median(seen) if seen else engine.kv_use


def _usual(engine: EngineFigures) -> float:
    """How many requests an engine works at, lately."""
    seen = [n for _, n, *_ in engine.history]
    return float(median(seen) if seen else engine.running or engine.in_flight or 0)


def _step(engines: list[EngineFigures], usual: float, rate: float) -> Callable[[np.ndarray], np.ndarray]:
    """Seconds in which each of so many answers grows by a token."""
    fits = [(e.base, e.each) for e in engines if e.base is not None and e.each is not None]
    usual = max(1.0, usual)
    seconds = usual / rate
    if fits:
        base = sum(b for b, _ in fits) / len(fits)
        each = sum(e for _, e in fits) / len(fits) / max(1, len(engines))
        return lambda running: base + each * running
    return lambda running: seconds * (_UNLOADED + (1 - _UNLOADED) * np.minimum(1.0, running / usual))
