"""How SGLang decides whom to admit and whom to retract (``schedule_policy``, ``schedule_batch``; 0.5.23): pure."""

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import NamedTuple

from draftmill.engines.simulated.sequence import Sequence

CLIP = 4096  # tokens ahead that a reservation looks
RATIO, LEAST_RATIO, DECAY_STEPS = 0.7, 0.098, 600  # share of its reservation that a running sequence is believed to use
_RETRACT_STEPS = 20  # decode steps that a retraction makes room for
_PAGE = 1


class Take(NamedTuple):
    """``tokens`` of a sequence's fill go into a prefill pass; ``hit`` come from the prefix cache beside them."""

    sequence: Sequence
    tokens: int
    hit: int = 0


class Admission(NamedTuple):
    """A prefill pass. ``full``: nobody else is looked at until a sequence leaves."""

    takes: list[Take]
    full: bool


def decayed(ratio: float, steps: int) -> float:
    """The ratio after so many decode steps without a retraction."""
    return max(LEAST_RATIO, ratio - steps * (RATIO - LEAST_RATIO) / DECAY_STEPS)


def ratio_after_retraction(running: Many[Sequence]) -> float:
    """The ratio that the rest of the batch is given after a retraction."""
    generated = sum(s.generated for s in running) + _RETRACT_STEPS * len(running)
    return min(1.0, generated / (sum(s.limit for s in running) + 1))


def retraction_order(running: Many[Sequence]) -> list[Sequence]:
    """Who goes first: the fewest tokens generated, among equals the longest prompt."""
    return sorted(running, key=lambda s: (s.generated, -len(s.prompt_ids)))


def admit(
    queue: "deque[Sequence]",
    running: Many[Sequence],
    chunked: Sequence | None,
    *,
    free: int,
    ratio: float,
    chunk: int,
    max_running: int,
    hit: Callable[[Sequence], int],
) -> Admission:
    """The next prefill pass: first come, first served, and the first that does not fit closes the door.

    A newcomer must fit with its whole reservation beside ``ratio`` of that of everybody who runs. ``hit`` says how many
    tokens of a sequence the prefix cache holds.
    """
    room = free - ratio * sum(s.reserved(CLIP) for s in running)
    left = chunk
    takes: list[Take] = []
    if chunked is not None:
        missing = chunked.fill - chunked.held
        bound = min(left, int(room))
        tokens = min(missing, bound if bound > 0 else left)  # it must go on, to free its memory one day
        takes.append(Take(chunked, tokens))
        left -= tokens
        room -= tokens + _PAGE + (chunked.reserved(CLIP) if tokens == missing else 0)
    for sequence in queue:
        if left <= 0:
            return Admission(takes, full=False)
        if len(running) + len(takes) >= max_running:
            return Admission(takes, full=True)
        cached = hit(sequence)
        missing = sequence.fill - cached
        if sequence.fill + sequence.reserved(CLIP) + _PAGE >= room:
            return Admission(takes, full=bool(takes or running))
        tokens = min(missing, left)
        takes.append(Take(sequence, tokens, cached))
        left -= tokens
        room -= tokens + cached + _PAGE + (sequence.reserved(CLIP) if tokens == missing else 0)
        if room <= 0:
            return Admission(takes, full=True)
    return Admission(takes, full=False)
