"""How far two distributions are apart at the same positions, from what two engines say of the same ids."""

from collections.abc import Sequence
from math import exp, log

import msgspec

from draftmill.engines.protocol import Scored

_REST = 1e-6  # of a probability: below that, what the likeliest ids leave is rounding
_LOWEST = -50.0  # nats: below that a server's number says "never"


class Distance(msgspec.Struct, frozen=True):
    """Sums over the ids of one answer, of the engine that is ``own`` against another.

    ``absolute``: |difference| of the log-probabilities of the ids, nats. ``refused``: total variation, the share of
    tokens that a perfect copy of one engine proposes and the other does not take. ``kl``: Kullback-Leibler divergence
    of the other from the own one, nats. ``other_top``: positions whose likeliest ids differ. The last two are
    None where no likeliest ids were told.
    """

    ids: int = 0
    absolute: float = 0.0
    refused: float = 0.0
    kl: float | None = None
    other_top: int | None = None


def distance(ids: Sequence[int], own: Scored, other: Scored) -> Distance:
    """Sums over the ids of one answer, which ``own`` generated.

    With likeliest ids the distributions are compared over those that both told, the id itself, and all the rest in one
    piece. Parts merged cannot lie further apart than they did (the data processing inequality), so ``refused`` and
    ``kl`` are from below; ids beyond twenty hold little. Without them, total variation is the mean of
    max(0, 1 - other/own) over ids that ``own`` sampled.
    """
    pairs = list(zip(map(_bounded, own.logprobs), map(_bounded, other.logprobs), strict=True))
    absolute = sum(abs(a - b) for a, b in pairs)
    if own.top is None or other.top is None:
        refused = sum(max(0.0, 1 - exp(b - a)) for a, b in pairs)
        return Distance(len(pairs), absolute, refused)
    refused = kl = 0.0
    other_top = 0
    for id, pair, one, two in zip(ids, pairs, own.top, other.top, strict=True):
        apart, nats = _apart(id, pair, one, two)
        refused, kl = refused + apart, kl + nats
        other_top += next(iter(one), None) != next(iter(two), None)
    return Distance(len(pairs), absolute, refused, kl, other_top)


def _apart(shown: int, pair: tuple[float, float], one: dict[int, float], two: dict[int, float]) -> tuple[float, float]:
    """Total variation and divergence at one position; ``pair`` is what both say of the id that stands there."""
    both = [(one[id], two[id]) for id in one if id in two and id != shown] + [pair]
    listed = [(exp(_bounded(a)), exp(_bounded(b))) for a, b in both]
    rest = (max(_REST, 1 - sum(p for p, _ in listed)), max(_REST, 1 - sum(q for _, q in listed)))
    parts = [*listed, rest]
    return sum(abs(p - q) for p, q in parts) / 2, max(0.0, sum(p * log(p / q) for p, q in parts))


def _bounded(logprob: float) -> float:
    return max(_LOWEST, logprob)


def first_difference(one: Sequence[int], other: Sequence[int]) -> tuple[bool, int]:
    """Whether two greedy answers part, and over how many ids that was watched: up to the id at which they do, or to
    their end."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return True, at + 1
    return False, min(len(one), len(other))


def survival(watched: Sequence[tuple[bool, int]], at: Sequence[int]) -> list[float]:
    """The share of pairs that have parted by each number of ids (Kaplan and Meier); a pair whose answers ended alike
    leaves the risk set there."""
    shares = []
    for limit in at:
        alive = 1.0
        for length in sorted({n for parted, n in watched if parted and n <= limit}):
            risk = sum(n >= length for _, n in watched)
            alive *= 1 - sum(parted and n == length for parted, n in watched) / risk
        shares.append(1 - alive)
    return shares
