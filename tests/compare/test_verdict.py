"""The verdict as a table of cases."""

import pytest

from draftmill.compare.interval import Interval
from draftmill.compare.verdict import Verdict, judge, prompts_needed, worst


@pytest.mark.parametrize(
    ("low", "high", "tolerance", "decides", "verdict"),
    [
        (-0.01, 0.01, 0.02, True, Verdict.NOISE),
        (0.001, 0.01, 0.02, True, Verdict.TOLERATED),
        (0.03, 0.05, 0.02, True, Verdict.BEYOND),
        (0.01, 0.03, 0.02, True, Verdict.UNDECIDED),
        (-0.01, 0.03, 0.02, True, Verdict.UNDECIDED),
        (-0.03, -0.021, 0.02, True, Verdict.NOISE),
        (float("-inf"), float("inf"), 0.02, True, Verdict.UNDECIDED),
        (-0.01, 0.03, 0.02, False, Verdict.NOISE),
        (0.01, 0.03, 0.02, False, Verdict.TOLERATED),
        (-9.0, -6.0, 5.0, False, Verdict.BEYOND),
        (0.01, 0.03, None, False, Verdict.SHOWN),
        (-0.01, 0.03, None, False, Verdict.NOISE),
        (0.0, 0.0, 0.02, True, Verdict.NOISE),
        (0.001, 0.002, 0.0, True, Verdict.BEYOND),
    ],
)
def test_one_effect(low: float, high: float, tolerance: float | None, decides: bool, verdict: Verdict) -> None:
    assert judge(Interval((low + high) / 2, low, high), tolerance, signed=not decides, decides=decides) is verdict


def test_the_worst_counts_and_one_that_only_explains_is_tolerated() -> None:
    assert worst([Verdict.NOISE, Verdict.BEYOND, Verdict.UNDECIDED]) is Verdict.BEYOND
    assert worst([Verdict.NOISE, Verdict.SHOWN]) is Verdict.TOLERATED
    assert worst([]) is Verdict.NOISE


def test_how_many_prompts_would_tell() -> None:
    """Half as wide an interval takes four times as many."""
    assert prompts_needed(10, Interval(0.01, -0.01, 0.03), 0.02) == 45
    assert prompts_needed(10, Interval(0.02, 0.0, 0.04), 0.02) is None
