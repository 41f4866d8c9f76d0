"""A population of answers whose mean is known, and a server of known speed."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import erf, exp, log, sqrt


@dataclass(frozen=True)
class World:
    """Log-normal answers of this mean before the cut at ``limit``; a server that runs ``at_once``, of them at most
    ``admitted``, each token taking ``pace(running)`` seconds."""

    mean: float = 3800
    sigma: float = 0.9
    limit: int = 10_240
    budget: int = 10_000_000
    at_once: int = 150
    admitted: int = 1 << 30
    pace: Callable[[int], float] = lambda running: 1 / 17

    def draw(self, rng: random.Random, longer_than: int = 0) -> int:
        """A length, given that it is longer than so many tokens."""
        while (length := round(rng.lognormvariate(self._mu, self.sigma))) <= longer_than:
            pass
        return min(self.limit, length)

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of an answer's length after the cut (of the restricted log-normal)."""
        z = (log(self.limit) - self._mu) / self.sigma
        above = 1 - _normal(z)
        first, second = (
            exp(k * self._mu + (k * self.sigma) ** 2 / 2) * _normal(z - k * self.sigma) + self.limit**k * above
            for k in (1, 2)
        )
        return first, sqrt(second - first * first)

    @property
    def _mu(self) -> float:
        return log(self.mean) - self.sigma**2 / 2


def _normal(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2
