"""How many decodes fit, for one class and for a mix."""

import random

import pytest

from draftmill.capacity.decodes import Part, fit, held
from draftmill.capacity.lengths import assumed, fixed, observed, uncut


def test_the_reference_figures() -> None:
    assert fit(159_277, 4000) == 39
    assert 39 * 17 == 663


def test_a_running_request_does_not_hold_its_final_length() -> None:
    part = Part(1, 500, fixed(4000))
    assert part.held == 500 + 2000, "halfway on average where all are equally long"
    long_tail = Part(1, 500, assumed(4000, 1_000_000))
    assert long_tail.held == pytest.approx(500 + 2000 * 2.248, rel=0.01), "E[L²] / E[L]² = exp(0.9²)"


def test_a_mix_is_weighted_by_the_time_under_way() -> None:
    short, long = Part(1000, 100, fixed(100)), Part(100, 8000, fixed(1000))
    assert held([short, long]) == pytest.approx((150 + 8500) / 2)
    with pytest.raises(ValueError, match="nothing"):
        held([])


def test_what_is_held_is_what_a_simulated_server_holds() -> None:
    """A server that always runs 400: the tokens held at random instants, against the formula."""
    rng = random.Random(1)
    lengths = [min(8000, max(1, round(rng.lognormvariate(7, 0.9)))) for _ in range(40_000)]
    feed, running, total, looks = iter(lengths), [], 0, 0
    for step in range(60_000):
        running = [(done + 1, length) for done, length in running if done + 1 < length]
        try:
            while len(running) < 40:
                running.append((0, next(feed)))
        except StopIteration:
            break
        if step > 8000:
            total, looks = total + sum(done for done, _ in running), looks + 40
    seen = observed(lengths)
    assert seen is not None and total / looks == pytest.approx(seen.running, rel=0.05)


@pytest.mark.parametrize(("mean", "limit"), [(1577.04, 10_240), (3793.63, 10_240), (6000, 16_384), (9000, 10_240)])
def test_an_assumed_mean_is_the_one_after_the_cut(mean: float, limit: int) -> None:
    lengths = assumed(mean, limit)
    assert lengths.mean == pytest.approx(mean, rel=1e-6)
    assert uncut(mean, limit) > mean
    assert mean**2 < lengths.square < mean * limit
    assert lengths.error == 0.3


def test_a_mean_at_the_limit_is_the_limit() -> None:
    assert assumed(20_000, 10_240) == fixed(10_240)


def test_observed_moments() -> None:
    seen = observed([100, 300])
    assert seen is not None
    assert (seen.mean, seen.running, seen.seen) == (200, 125, 2)
    assert seen.error == pytest.approx(100 / 2**0.5 / 200)
    assert observed([]) is None
