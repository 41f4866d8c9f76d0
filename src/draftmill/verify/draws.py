"""What a sampler could draw, and how likely it was to draw what stands there: pure functions (docs/verify.md).

A server tells the likeliest ids of each position (``Scored.top``), at temperature 1 and before any cut. From them and
the sampling settings follows the distribution that the sampler drew from, exactly among the ids that are listed; of
the rest, bounds of what they hold together.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from draftmill.engines.protocol import Scored
from draftmill.recipe import Sampling

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

BORDER = 0.3  # nats around a cut: rounding moves ids over it
_NEVER = -np.inf


@dataclass(frozen=True)
class Draws:
    """The answers of one or more rows, N ids, K listed ones at most, those that a cut takes away left out.

    ``logs_NK``: log-probabilities among the listed ids that may be drawn (-inf for none); ``chosen_N``: which of them
    stands there, -1 for none. ``ids_NK`` names them. ``unlisted_N``: another id, which may be drawn, stands there;
    ``least_N`` and ``most_N`` bound how likely that was. ``beyond_N``: nats by which the id that stands there lies
    below the border of what may be drawn, 0 where it may be.
    """

    ids_NK: Ints
    logs_NK: Floats
    chosen_N: Ints
    unlisted_N: npt.NDArray[np.bool_]
    least_N: Floats
    most_N: Floats
    beyond_N: Floats

    def __len__(self) -> int:
        return len(self.chosen_N)


def draws(ids: list[int], scored: Scored, sampling: Sampling, vocab_size: int) -> Draws:
    """What a sampler could draw at each of the scored ids, ``ids`` being those. Temperature 0 draws the likeliest."""
    assert scored.top is not None
    width = max(map(len, scored.top), default=0)
    number = len(ids)
    found = Draws(
        np.zeros((number, width), np.int64),
        np.full((number, width), _NEVER),
        np.full(number, -1, np.int64),
        np.zeros(number, bool),
        np.zeros(number),
        np.zeros(number),
        np.zeros(number),
    )
    for at, (id, logprob, top) in enumerate(zip(ids, scored.logprobs, scored.top, strict=True)):
        listed, logs = list(top), np.fromiter(top.values(), float, len(top))
        kept, least, most = _kept(logs, sampling, vocab_size)
        warm = logs[:kept] / (sampling.temperature or 1.0)
        total = float(np.logaddexp.reduce(warm))
        found.ids_NK[at, :kept] = listed[:kept]
        found.logs_NK[at, :kept] = warm - total
        inside = np.exp(total)
        found.least_N[at], found.most_N[at] = least / (inside + least), most / (inside + most)
        if id in listed[:kept]:
            found.chosen_N[at] = listed.index(id)
        elif id not in top and most:
            found.unlisted_N[at] = True
        else:
            found.beyond_N[at] = logs[kept - 1] - logprob
    return found


def first(drawn: Draws, number: int) -> Draws:
    """The first ids alone."""
    return Draws(*(getattr(drawn, name)[:number] for name in Draws.__dataclass_fields__))


def joined(many: list[Draws]) -> Draws:
    """The answers of many rows in one."""
    width = max((one.logs_NK.shape[1] for one in many), default=0)

    def wide(array: npt.NDArray[np.generic], fill: float) -> npt.NDArray[np.generic]:
        return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=fill)

    return Draws(
        np.concatenate([wide(one.ids_NK, 0) for one in many]),
        np.concatenate([wide(one.logs_NK, _NEVER) for one in many]),
        *(
            np.concatenate([getattr(one, name) for one in many])
            for name in ("chosen_N", "unlisted_N", "least_N", "most_N", "beyond_N")
        ),
    )


def _kept(logs: Floats, sampling: Sampling, vocab_size: int) -> tuple[int, float, float]:
    """How many of the listed ids may be drawn, and bounds of the weight of all others that may, in units of p^(1/T).

    The servers' order: temperature, top-k, top-p, min-p. Of the unlisted ids only their sum at temperature 1 is known,
    ``rest``, and that none is above the last listed one; their sum of p^(1/T) lies between that of as many equal ids
    as there are and that of as few as there may be, since the power is convex below temperature 1 and concave above.
    """
    if sampling.temperature == 0:
        return 1, 0.0, 0.0
    power = 1 / sampling.temperature
    rest, others = max(0.0, 1.0 - float(np.exp(logs).sum())), vocab_size - len(logs)
    few = rest * float(np.exp(logs[-1])) ** (power - 1)
    even = others * (rest / others) ** power if others > 0 else 0.0
    least, most = (0.0, 0.0) if others <= 0 else (min(few, even), max(few, even))
    weights, kept = np.exp(logs * power), len(logs)
    if 0 < sampling.top_k <= len(logs):
        kept, least, most = sampling.top_k, 0.0, 0.0
    elif sampling.top_k > 0:
        more = min(sampling.top_k - kept, others)
        most = min(most, more * float(weights[-1]))
        least = min(least * more / others, most) if others > 0 else 0.0  # the likeliest hold at least their part
    if sampling.top_p < 1:
        inside = float(weights[:kept].sum())
        before = np.cumsum(weights[:kept]) - weights[:kept]
        # generous: a heavier rest lets the listed ids reach less of the whole, so that more of them are kept
        reached = int((before < sampling.top_p * (inside + most)).sum())
        if reached < kept or inside >= sampling.top_p * (inside + most):
            kept, least, most = reached, 0.0, 0.0
        else:
            least = max(0.0, sampling.top_p * (inside + least) - inside)
            most = min(most, sampling.top_p * (inside + most) - inside + float(weights[-1]))
    if sampling.min_p > 0:
        allowed = int((weights[:kept] >= sampling.min_p * weights[0]).sum())
        kept, least = allowed, 0.0
        if weights[-1] < sampling.min_p * weights[0]:
            most = 0.0
    return max(kept, 1), least, most


# Alternatives that a row is held against, from much hotter to nearly greedy: 1 / (1 + tilt) times the temperature, and
# so many times the odds of an unlisted id.
_OTHERS = ((-0.75, 8.0), (-0.5, 4.0), (-0.25, 2.0), (0.0, 4.0), (0.0, 0.25), (0.5, 0.5), (1.0, 0.25), (4.0, 0.125))


def log_evidence(drawn: Draws) -> float:
    """The log of how much likelier answers are under other samplers than under theirs, on average of several others.

    An e-value: its mean is at most 1 where the distribution is the right one, so that it exceeds x with a chance of 1/x
    at most, however short the answers are.
    """
    fit, most, least = Fit(drawn), drawn.most_N, drawn.least_N
    open_N = (drawn.beyond_N == 0) & (most > 0)
    logs = []
    for tilt, odds in _OTHERS:
        chance = (most if odds > 1 else least)[open_N]
        rest = drawn.unlisted_N[open_N] * np.log(odds) - np.log1p((odds - 1) * chance)
        logs.append(fit.log_evidence(tilt) + float(rest.sum()))
    return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def greedy_gaps(scored: Scored) -> Floats:
    """By how many nats the likeliest id of each position is above the one that stands there."""
    assert scored.top is not None
    return np.array(
        [max(0.0, next(iter(top.values())) - said) for said, top in zip(scored.logprobs, scored.top, strict=True)]
    )


class Fit:
    """The listed ids of some positions against their distributions: log c(x) and what it should be."""

    def __init__(self, drawn: Draws) -> None:
        told = (drawn.chosen_N >= 0) & (np.isfinite(drawn.logs_NK).sum(axis=1) > 1)
        self.logs_MK = drawn.logs_NK[told]
        self.said_M = self.logs_MK[np.arange(int(told.sum())), drawn.chosen_N[told]]
        self._finite = np.where(np.isfinite(self.logs_MK), self.logs_MK, 0.0)

    def __len__(self) -> int:
        return len(self.said_M)

    def surplus(self) -> tuple[float, float]:
        """How far the mean log-probability lies above what it should be, in nats an id, and its standard error.

        Under the right distribution the differences are a martingale's, so that their sum over the root of the sum of
        their variances is standard normal for many ids.
        """
        p = np.exp(self.logs_MK)
        mean = (p * self._finite).sum(axis=1)
        variance = (p * self._finite**2).sum(axis=1) - mean**2
        number = max(1, len(self))
        return float((self.said_M - mean).sum()) / number, float(np.sqrt(variance.sum())) / number

    def log_evidence(self, tilt: float) -> float:
        """The log of how much likelier the ids are at the temperature T / (1 + tilt) than at T."""
        return float((tilt * self.said_M - np.logaddexp.reduce((1 + tilt) * self.logs_MK, axis=1)).sum())

    def warmth(self) -> float:
        """At how many times the temperature these ids are the likeliest, from 1/8 to 8: the maximum of a concave
        function of 1 / temperature, by bisection of its derivative."""
        low, high = 1 / 8, 8.0
        for _ in range(40):
            power = (low + high) / 2
            tilted = power * self.logs_MK
            p = np.exp(tilted - np.logaddexp.reduce(tilted, axis=1)[:, None])
            if float((self.said_M - (p * self._finite).sum(axis=1)).sum()) > 0:
                low = power
            else:
                high = power
        return 2 / (low + high)
