"""How long an answer will be: a survival curve of the lengths seen, and what it says of an answer under way.

A mean of the finished answers is too low while others run, since the short ones finish first. Kaplan–Meier takes the
rest into account: an answer that is still running, or that its token limit cut, is at least so long.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from math import expm1, inf
from operator import neg

_FINE = 64  # lengths up to it are told apart; above, a bucket is a 64th of its length wide
_PRIOR = 1.0  # answers' worth of weight of the prior: it speaks where nothing was seen, and is drowned out soon after
_GROWTH = 50  # the curve is built again when the answers that have ended have grown by a 50th: O(log n) times in all


class Forecast:
    """The survival curve of one dataset's answer lengths up to ``limit`` tokens, restricted there.

    A life table in buckets that are exact up to 64 tokens and at most a 64th of the length wide above; the events of a
    bucket lie at their mean. So an expectation is off by less than a bucket, and the mean of answers that are all
    finished is exact. Where few or none were seen, a prior of one answer's weight speaks: an exponential tail whose
    mean is the tokens seen (and one limit) for each finished answer, hence the limit itself while none has finished.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.ended = 0
        self._finished = 0
        self._edges = _edges(limit)
        buckets = len(self._edges)  # the last one holds what is as long as the limit, or longer
        self._events = [0] * buckets
        self._event_tokens = [0] * buckets
        self._censored = [0] * buckets
        self._seen = 0
        self._build(())

    def add(self, tokens: int, cut: bool) -> None:
        """An answer has ended: by itself, or ``cut`` by a limit (this one, an earlier one, or the engine's context)."""
        bucket = bisect_right(self._edges, tokens) - 1
        self.ended += 1
        self._seen += tokens
        if cut:
            self._censored[bucket] += 1
        else:
            self._finished += 1
            self._events[bucket] += 1
            self._event_tokens[bucket] += tokens

    def stale(self, growth: float = 1 / _GROWTH) -> bool:
        """Whether so large a share has been added that the curve should be built anew."""
        return self.ended - self._built_of > self._built_of * growth

    def refresh(self, under_way: Iterable[float]) -> None:
        """Build the curve anew where enough has been added. ``under_way``: tokens of each answer that still runs."""
        if self.stale():
            self._build(under_way)

    def mean(self) -> float:
        """Expected tokens of an answer of which nothing is known."""
        return self._areas[0]

    def expected(self, done: float = 0, limit: int | None = None) -> float:
        """Expected tokens in all of an answer that still runs with ``done`` tokens, under its own ``limit``."""
        most = self.limit if limit is None or limit > self.limit else limit
        if done >= most:
            return most
        alive, area = self._after(done)
        if alive <= 0.0:  # the prior's tail has run out of the floating point
            return min(most, done + self._residual)
        if most < self.limit:
            area -= self._after(most)[1]
        return done + area / alive

    def survival(self, tokens: float) -> float:
        """The share of answers that are longer than so many tokens."""
        return self._after(tokens)[0] if tokens < self.limit else 0.0

    def longer_than(self, share: float) -> float:
        """The length that this share of all answers exceeds; the limit where more are cut than that."""
        bucket = bisect_right(self._alive, -share, key=neg)
        return self._drops[bucket - 1] if bucket < len(self._alive) else self.limit

    def _after(self, tokens: float) -> tuple[float, float]:
        """The curve at a length below the limit, and the area under it from there to the limit."""
        bucket = bisect_right(self._edges, tokens) - 1
        beyond, drop, end = self._alive[bucket + 1], self._drops[bucket], self._edges[bucket + 1]
        area = self._areas[bucket + 1]
        if tokens >= drop:
            return beyond, area + beyond * (end - tokens)
        alive = self._alive[bucket]
        return alive, area + beyond * (end - drop) + alive * (drop - tokens)

    def _build(self, under_way: Iterable[float]) -> None:
        censored, seen, edges = self._censored.copy(), float(self._seen), self._edges
        for done in under_way:
            censored[bisect_right(edges, done) - 1] += 1
            seen += done
        self._built_of = self.ended
        self._residual = (seen + self.limit) / self._finished if self._finished else inf
        at_risk = sum(self._events) + sum(censored)
        alive = 1.0
        self._alive, self._drops = [alive], []
        for bucket, (start, end) in enumerate(pairwise(edges)):
            width, events = end - start, self._events[bucket]
            prior = _PRIOR * -expm1(-width / self._residual) if start else 0.0  # no answer is empty
            # the actuarial rule: whoever is censored inside a wide bucket was at risk for half of it
            exposed = at_risk - (censored[bucket] / 2 if width > 1 else 0)
            ended = events + prior
            drop = float(start)
            if width > 1 and ended:
                drop = (self._event_tokens[bucket] + prior * (start + end - 1) / 2) / ended
            alive *= max(0.0, 1 - ended / (exposed + _PRIOR))
            self._alive.append(alive)
            self._drops.append(drop)
            at_risk -= events + censored[bucket]
        area = 0.0
        areas = [area]
        for bucket in range(len(edges) - 2, -1, -1):
            drop = self._drops[bucket]
            area += self._alive[bucket] * (drop - edges[bucket]) + self._alive[bucket + 1] * (edges[bucket + 1] - drop)
            areas.append(area)
        self._areas = areas[::-1]


def _edges(limit: int) -> list[int]:
    """Where the buckets begin, from 0 to the limit itself."""
    edges = [0]
    while edges[-1] < limit:
        edges.append(min(limit, edges[-1] + max(1, edges[-1] // _FINE)))
    return edges
