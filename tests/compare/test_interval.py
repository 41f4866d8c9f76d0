"""Intervals over prompts: they hold as often as they say."""

import numpy as np
import pytest

from draftmill.compare.interval import Contrast, interval, resamples, student


@pytest.mark.parametrize(
    ("tail", "freedom", "expected"),
    [(0.025, 7, -2.365), (0.025, 63, -1.998), (0.005, 7, -3.499), (0.0036, 15, -3.094), (0.025, 100_000, -1.960)],
)
def test_student(tail: float, freedom: int, expected: float) -> None:
    assert student(tail, freedom) == pytest.approx(expected, rel=0.01)


def plain(numbers: np.ndarray, of: np.ndarray) -> Contrast:
    """One ratio, against nothing."""
    return Contrast(numbers, of, np.zeros(len(of)), np.ones(len(of)))


@pytest.mark.parametrize("prompts", [10, 40])
def test_the_interval_holds_as_often_as_it_says(prompts: int) -> None:
    """Answers of skewed lengths, whose tokens share an effect of their prompt: a mean over tokens, prompts drawn."""
    rng, rounds = np.random.default_rng(1), 300
    weights = resamples(prompts, 0, 2000)
    held = 0
    for _ in range(rounds):
        lengths = rng.geometric(0.05, prompts).astype(float)
        found = interval(plain(lengths * rng.normal(3.0, 1.0, prompts), lengths), weights, 0.95, signed=True)
        held += found.low <= 3.0 <= found.high
    assert 0.90 <= held / rounds <= 0.985


@pytest.mark.parametrize("signed", [True, False])
def test_where_nothing_differs_zero_is_held(signed: bool) -> None:
    """Few prompts differ at all, all by one: what a plain bootstrap takes for a difference too often."""
    rng, rounds, prompts = np.random.default_rng(3), 300, 24
    weights, ones = resamples(prompts, 0, 1000), np.ones(24)
    missed = 0
    for _ in range(rounds):
        sides = rng.random((2, prompts)) < 0.12
        found = interval(Contrast(sides[0] * 1.0, ones, sides[1] * 1.0, ones), weights, 0.95, signed=signed)
        missed += found.low > 0 or (signed and found.high < 0)
    assert missed / rounds <= 0.06


def test_what_all_prompts_share_leaves_the_difference_sharp() -> None:
    common, ones = np.random.default_rng(2).normal(5, 2, 30), np.ones(30)
    weights = resamples(30, 0)
    paired = interval(Contrast(common + 0.1, ones, common, ones), weights, 0.95, signed=False)
    alone = interval(plain(common, ones), weights, 0.95, signed=True)
    assert paired.value == pytest.approx(0.1) and paired.high - paired.low < 1e-9 < alone.high - alone.low
    assert paired.excludes_zero()


def test_one_prompt_bounds_nothing() -> None:
    found = interval(plain(np.ones(1), np.ones(1)), resamples(1, 0, 10), 0.95, signed=True)
    assert (found.value, found.low, found.high) == (1.0, -np.inf, np.inf)


def test_the_same_seed_draws_the_same() -> None:
    assert (resamples(5, 3, 10) == resamples(5, 3, 10)).all()
    assert (resamples(5, 3, 10).sum(axis=1) == 5).all()
