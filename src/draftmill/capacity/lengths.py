"""How long answers are, as two moments: what a running request holds depends on the second."""

from collections.abc import Iterable
from math import erf, exp, log, sqrt

import msgspec

SIGMA = 0.9  # of the log-normal that stands for answers never seen: what chat, code and tool data showed


class Lengths(msgspec.Struct, frozen=True):
    """``mean`` = E[L] and ``square`` = E[L²] of the answers as the limit leaves them; ``seen`` answers stand behind it,
    0 where it is an assumption."""

    mean: float
    square: float
    seen: int = 0

    @property
    def running(self) -> float:
        """Tokens that an answer under way has on average: E[L²] / 2E[L], since long ones are under way longer."""
        return self.square / (2 * self.mean)

    @property
    def error(self) -> float:
        """The relative standard error of the mean; 0.3 for an assumption, which nobody can know better."""
        if not self.seen:
            return 0.3
        return sqrt(max(0.0, self.square - self.mean**2) / self.seen) / self.mean


def observed(tokens: Iterable[int]) -> Lengths | None:
    """The moments of answers that were seen; None where there are none."""
    count = total = squares = 0
    for length in tokens:
        count, total, squares = count + 1, total + length, squares + length * length
    return Lengths(total / count, squares / count, count) if total else None


def fixed(tokens: float) -> Lengths:
    """Answers that are all equally long."""
    return Lengths(tokens, tokens * tokens)


def assumed(mean: float, limit: int, sigma: float = SIGMA) -> Lengths:
    """A log-normal that the limit cuts, of this mean *after* the cut."""
    if mean >= limit:
        return fixed(limit)
    return Lengths(*_cut(uncut(mean, limit, sigma), limit, sigma))


def uncut(mean: float, limit: int, sigma: float = SIGMA) -> float:
    """The mean that a log-normal has before the cut, where it is ``mean`` after it. By bisection."""
    low, high = mean, mean
    while _cut(high, limit, sigma)[0] < mean and high < 1e6 * limit:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _cut(middle, limit, sigma)[0] < mean else (low, middle)
    return high


def _cut(mean: float, limit: int, sigma: float) -> tuple[float, float]:
    """E[min(L, limit)] and E[min(L, limit)²] of a log-normal."""
    mu = log(mean) - sigma**2 / 2
    z = (log(limit) - mu) / sigma
    first, second = (
        exp(k * mu + (k * sigma) ** 2 / 2) * _normal(z - k * sigma) + limit**k * (1 - _normal(z)) for k in (1, 2)
    )
    return first, second


def _normal(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2
