"""What the answers in flight at one server will come to hold of its KV cache, and how many more it has room for. Pure.

An answer under way goes on for ``h`` tokens with the probability that the lengths seen give it, and then holds its
prompt, what is there of it and ``h`` more; or it has ended and holds nothing. Summed over all of them that is a mean
and a variance for each horizon, and what is sent now must leave room for the highest of these hills, not for what is
in use at the moment: young answers fill a cache long after they were sent, old ones are about to leave it.
"""

from collections import defaultdict
from math import floor, inf, log2, sqrt

from draftmill.mill.forecast import Forecast

_NEAREST = 64  # tokens ahead: the first horizon,
_FURTHER = sqrt(2)  # times as far: the next one
_FINE = 8  # groups an octave of what is there: answers of about the same length are looked at as one
_KNOWN = 30  # answers that the forecast is taken to know at the start: its prior is careful itself
_RARE = 0.05  # no horizon that fewer newcomers live to: to hold them back changes nothing there


class Growth:
    """Answers in flight at a server, added one by one, and those that would be sent next."""

    def __init__(self) -> None:
        # by forecast, whether they wait at the server, and length: how many, tokens of prompt, tokens there
        self._groups: defaultdict[tuple[Forecast, bool, int], list[float]] = defaultdict(lambda: [0, 0, 0])
        self._number = 0
        self._newcomers: list[tuple[Forecast, float]] = []

    def add(self, forecast: Forecast, prompt: int, there: float, *, waits: bool = False) -> None:
        """An answer in flight; ``waits``: it holds nothing yet, since it waits in the server's queue."""
        self._number += 1
        group = self._groups[forecast, waits, round(_FINE * log2(1 + there))]
        group[0] += 1
        group[1] += prompt
        group[2] += there

    def newcomer(self, forecast: Forecast, prompt: float) -> None:
        """A kind of answer that may be sent next; all kinds are taken to be as frequent."""
        self._newcomers.append((forecast, prompt))

    def expected(self) -> float:
        """Tokens of an answer that would be sent next, on average; 0 where none would be."""
        return sum(forecast.mean() for forecast, _ in self._newcomers) / max(1, len(self._newcomers))

    def room(self, free: float, margin: float) -> int:
        """How many more may be sent, or by how many too many there are (then it is negative).

        ``free``: tokens of the cache that are not in use. At every horizon the expected tokens and ``margin`` standard
        deviations fit: the ``n`` that solves ``mean + n·a + margin·√(variance + n·b) = free``.
        """
        most, horizons = inf, self._horizons()
        for horizon, (mean, variance) in zip(horizons, self._hills(horizons), strict=True):
            a = b = lives = 0.0
            for forecast, prompt in self._newcomers:
                share, held = forecast.survival(horizon), prompt + horizon
                lives += share / len(self._newcomers)
                a += share * held / len(self._newcomers)
                b += share * (1 - share) * held**2 / len(self._newcomers)
            if lives < _RARE:
                break
            left, square = free - mean, margin**2
            half = left * a + square * b / 2
            root = half**2 - a**2 * (left**2 - square * variance)
            most = min(most, (half - sqrt(max(0.0, root))) / a**2)
        return floor(min(most, 1 << 20))

    def _horizons(self) -> list[int]:
        """Now, steps of half an octave, and just before the limits: many may be cut there together."""
        limits = {forecast.limit for forecast, _ in self._newcomers}
        horizons, horizon = {0} | {limit - 1 for limit in limits}, float(_NEAREST)
        while horizon < max(limits, default=0):
            horizons.add(round(horizon))
            horizon *= _FURTHER
        return sorted(horizons)

    def _hills(self, horizons: list[int]) -> list[tuple[float, float]]:
        """By how much more than now they will hold at each horizon, and the variance of it."""
        means, variances = [0.0] * len(horizons), [0.0] * len(horizons)
        for (forecast, waits, _), (count, prompts, there) in self._groups.items():
            each, done = (prompts + there) / count, there / count
            alive = forecast.survival(done)
            # chance for each of them, and for all of them together what the forecast does not know yet
            unsure = 1 + self._number / (forecast.ended + _KNOWN)
            for i, horizon in enumerate(horizons):
                share = forecast.survival(done + horizon) / alive if alive > 0 else 1.0
                held = each + horizon
                means[i] += count * (share * held - (0 if waits else each))
                variances[i] += count * share * (1 - share) * held**2 * unsure
        return list(zip(means, variances, strict=True))
