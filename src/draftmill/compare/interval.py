"""Bootstrap intervals over prompts: tokens of one answer are not independent of each other, prompts are."""

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

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


class Contrast(NamedTuple):
    """Two ratios over the same prompts, each a sum over a sum, so that a mean over tokens draws whole prompts; all
    arrays (prompts,). What is asked is the first less the second."""

    number: Floats
    of: Floats
    other: Floats
    other_of: Floats

    def sides(self) -> tuple[float, float]:
        """Both ratios."""
        return _ratio(self.number.sum(), self.of.sum()), _ratio(self.other.sum(), self.other_of.sum())

    def drawn(self, weights: Floats) -> Floats:
        """The difference for each round of weights (rounds, prompts); NaN where nothing was drawn."""
        return _difference(*(weights @ each for each in self))

    def swapped(self, masks: Floats) -> Floats:
        """The difference for each round of masks (rounds, prompts) of 0 and 1: where it is 1, a prompt's two sides
        change places."""
        kept = 1 - masks
        number, of, other, other_of = self
        return _difference(
            kept @ number + masks @ other,
            kept @ of + masks @ other_of,
            kept @ other + masks @ number,
            kept @ other_of + masks @ of,
        )


def interval(contrast: Contrast, weights: Floats, level: float, *, signed: bool, seed: int = 0) -> Interval:
    """The percentile interval of a contrast over resampled prompts.

    The percentiles are moved outwards to what Student's t has for so many prompts (Hesterberg 2015, "What teachers
    should know about the bootstrap", 5.2): the plain ones are too narrow for a few dozen. A bootstrap does not know
    that the few prompts which differ might have differed the other way, so where a test by swapping the sides of each
    prompt at random, which is exact where nothing differs, finds no difference, the interval is made to hold 0.
    ``signed``: a difference of either sign is one; else only a first side above the second.
    """
    prompts = weights.shape[1]
    one, other = contrast.sides()
    value = one - other
    if prompts < 2:
        return Interval(value, -np.inf, np.inf)
    tail = NormalDist().cdf(sqrt(prompts / (prompts - 1)) * student((1 - level) / 2, prompts - 1))
    low, high = map(float, np.nanpercentile(contrast.drawn(weights), (100 * tail, 100 * (1 - tail))))
    masks = np.random.default_rng(seed).integers(0, 2, weights.shape).astype(np.float64)
    under = contrast.swapped(masks)
    reached = abs(under) >= abs(value) * (1 - 1e-9) if signed else under >= value - abs(value) * 1e-9
    if (1 + reached.sum()) / (1 + len(under)) > 1 - level:
        low, high = min(low, 0.0), max(high, 0.0)
    return Interval(value, low, high)


def _difference(number: Floats, of: Floats, other: Floats, other_of: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return number / of - other / other_of


def _ratio(number: float, of: float) -> float:
    return float(number / of) if of else 0.0


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
