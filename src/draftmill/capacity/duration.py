"""How long a run takes: tokens, at the speed of as many decodes as fit."""

from collections.abc import Sequence
from math import ceil

import msgspec

from draftmill.capacity.speed import Speed

PREFILL = 12_000.0  # prompt tokens a second where nobody measured it: the reference run's


class Work(msgspec.Struct, frozen=True):
    """What one dataset asks of the servers: tokens to generate, tokens of the prompts before them, and how many of its
    requests run at once on one server."""

    generated: float
    prefilled: float
    decodes: float


class Span(msgspec.Struct, frozen=True):
    """Seconds: the forecast, and between what it is expected to lie."""

    seconds: float
    low: float
    high: float

    def __add__(self, other: "Span") -> "Span":
        return Span(self.seconds + other.seconds, self.low + other.low, self.high + other.high)


def prompts_for(budget: float, mean: float) -> int:
    """How many answers of this mean reach a budget."""
    return ceil(budget / mean)


def seconds(tokens: float, rate: float) -> float:
    """Seconds that so many tokens take at so many a second."""
    return tokens / rate


def of(work: Work, speed: Speed, *, servers: int = 1, prefill: float = PREFILL, error: float = 0.0) -> Span:
    """How long one dataset takes. Prefill and decode take turns on a server, so their times add.

    While the KV cache is what binds, times of datasets that are mixed add up to that of the mix, since a step's cost
    is linear in what is held. ``error`` is the relative error of the whole.
    """
    rate = servers * speed.rate(work.decodes)
    total = work.generated / rate + work.prefilled / (prefill * servers)
    return Span(total, total / (1 + error), total * (1 + error))


def together(spans: Sequence[Span]) -> Span:
    """All datasets, each dataset's errors taken to go the same way."""
    return sum(spans, Span(0.0, 0.0, 0.0))
