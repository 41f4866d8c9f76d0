"""What can go wrong with a simulated server, on demand or by a plan that a seed draws."""

import random
from collections.abc import Sequence
from enum import Enum

import msgspec


class Kind(Enum):
    """``seconds`` of a trouble is how long it lasts, ``count`` how many requests it hits; 0 means all."""

    RESET = "cuts the connections of what is in flight"
    ERROR = "answers new calls with HTTP 500"
    FULL = "answers new generations with 503, the queue is full"
    DENIED = "answers every call with 401"
    STALL = "makes no progress and goes on afterwards; its health calls still answer"
    ABORT = "gives up what is in flight, inside an HTTP 200, with the ids so far"
    DEATH = "loses everything; the server is back after its seconds, or never where they are 0"


class Trouble(msgspec.Struct, frozen=True):
    kind: Kind
    seconds: float = 0.0
    count: int = 0


def storm(
    seed: int, *, until: float, every: float, kinds: Sequence[Kind] = tuple(Kind), longest: float = 20.0
) -> list[tuple[float, Trouble]]:
    """(second, trouble), at random times that lie ``every`` seconds apart on average."""
    draw = random.Random(seed)  # noqa: S311 no secret
    plan, at = [], draw.expovariate(1 / every)
    while at < until:
        plan.append((at, Trouble(draw.choice(kinds), draw.uniform(0.1, longest), draw.randint(1, 8))))
        at += draw.expovariate(1 / every)
    return plan
