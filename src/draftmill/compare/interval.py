"""Bootstrap intervals over prompts: tokens of one answer are not independent of each other, prompts are."""

from collections.abc import Callable
from math import sqrt
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ROUNDS = 10_000  # so that hundreds lie beyond each end of the narrowest interval that is asked for


class Interval(msgspec.Struct, frozen=True):
    """An estimate and the two ends of its interval."""

    value: float
    low: float
    high: float

    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def resamples(prompts: int, seed: int, rounds: int = ROUNDS) -> Floats:
    """How often each prompt is drawn in each round, (rounds, prompts); the same rounds serve every effect."""
    drawn = np.random.default_rng(seed).multinomial(prompts, np.full(prompts, 1 / prompts), size=rounds)
    return drawn.astype(np.float64)


def interval(statistic: Callable[[Floats], Floats], weights: Floats, level: float = 0.95) -> Interval:
    """The percentile interval of a statistic that takes weights (rounds, prompts) and gives a value a round.

    The percentiles are moved outwards to what Student's t has for so many prompts (Hesterberg 2015, "What teachers
    should know about the bootstrap", 5.2): the plain ones are too narrow for a few dozen.
    """
    prompts = weights.shape[1]
    value = float(statistic(np.ones((1, prompts)))[0])
    if prompts < 2:
        return Interval(value, -np.inf, np.inf)
    tail = NormalDist().cdf(sqrt(prompts / (prompts - 1)) * student((1 - level) / 2, prompts - 1))
    low, high = np.nanpercentile(statistic(weights), (100 * tail, 100 * (1 - tail)))
    return Interval(value, float(low), float(high))


def student(tail: float, freedom: int) -> float:
    """The quantile of Student's t, by its expansion in 1/freedom (Abramowitz and Stegun 26.7.5). Within 1 % for more
    than 4 degrees of freedom and tails above 0.001; below that, wider than the normal one all the same."""
    z, n = NormalDist().inv_cdf(tail), freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def ratio(numbers: Floats, of: Floats) -> Callable[[Floats], Floats]:
    """Sum over sum, over prompts: a mean over tokens whose prompts are drawn. NaN where nothing was drawn."""

    def statistic(weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return (weights @ numbers) / (weights @ of)

    return statistic


def less(one: Callable[[Floats], Floats], other: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    """The difference of two statistics of the same draws."""
    return lambda weights: one(weights) - other(weights)
