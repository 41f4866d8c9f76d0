"""What a difference between two engines means: a table of cases over intervals and one tolerance."""

from enum import StrEnum

import msgspec

from draftmill.compare.interval import Interval

TOLERANCE = 0.02  # share of tokens refused; docs/compare.md has where it comes from


class Verdict(StrEnum):
    """In order: each is worse than the one before it. ``SHOWN`` is of effects that explain and do not decide."""

    NOISE = "within the noise"
    SHOWN = "differs"
    TOLERATED = "differs, within tolerance"
    UNDECIDED = "undecided: too few prompts"
    BEYOND = "differs beyond tolerance"


class Kind(StrEnum):
    """``DISTANCE``: of A from B, against that of A from itself. ``SHIFT``: B's figure against A's."""

    DISTANCE = "distance"
    SHIFT = "shift"


class Effect(msgspec.Struct, frozen=True):
    """One figure. ``value`` is that of A from B, or B's own; ``base`` that of A from A once more, or A's own;
    ``excess`` the first less the second, with its interval over prompts. ``tolerance`` is the most of it that passes,
    None where it only explains; ``verdict`` is what that makes of it."""

    name: str
    kind: Kind
    unit: str
    value: float
    base: float
    excess: Interval
    tolerance: float | None
    verdict: Verdict


def judge(excess: Interval, tolerance: float | None, *, signed: bool = False, decides: bool = False) -> Verdict:
    """The verdict on one effect; of one that is not ``signed`` less than nothing is nothing.

    The effect that ``decides`` passes only where its whole interval lies below the tolerance; of the others only what
    was shown counts, since a few dozen prompts never bound a mean length.
    """
    low = max(excess.low, -excess.high if signed else 0.0, 0.0)
    high = max(abs(excess.low) if signed else 0.0, excess.high)
    if tolerance is not None and low > tolerance:
        return Verdict.BEYOND
    if decides and tolerance is not None and not high <= tolerance:
        return Verdict.UNDECIDED
    if low <= 0:
        return Verdict.NOISE
    return Verdict.SHOWN if tolerance is None else Verdict.TOLERATED


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict on all effects together."""
    order = list(Verdict)
    found = max(verdicts, key=order.index, default=Verdict.NOISE)
    return Verdict.TOLERATED if found is Verdict.SHOWN else found


def prompts_needed(prompts: int, excess: Interval, tolerance: float) -> int | None:
    """About how many prompts would tell on which side of the tolerance an effect lies; None where it lies on it.

    An interval narrows with the root of their number.
    """
    apart = abs(tolerance - abs(excess.value))
    half = max(excess.high - excess.value, excess.value - excess.low)
    return None if apart < half / 30 else round(prompts * (half / apart) ** 2 * 1.1) + 1
