"""The speed of a server out of its own history."""

import pytest

from draftmill.capacity.duration import PREFILL, Span, Work, of, prompts_for, seconds, together
from draftmill.capacity.speed import Speed, fit, guess, sane


@pytest.mark.parametrize(("running", "rate"), [(52, 865), (72, 930)])
def test_two_loads_of_the_reference_run_give_the_others(running: int, rate: int) -> None:
    assert fit([(35, 606), (142, 1375)]).rate(running) == pytest.approx(rate, rel=0.12)


def test_a_line_is_found_again() -> None:
    speed = Speed(0.03, 0.0005)
    found = fit([(n, speed.rate(n)) for n in (8, 64, 200)])
    assert (found.base, found.per_sequence) == (pytest.approx(0.03), pytest.approx(0.0005))
    with pytest.raises(ValueError, match="two different loads"):
        fit([(8, 100.0), (8, 110.0)])


def test_noise_makes_no_negative_cost() -> None:
    assert sane(fit([(8, 80), (16, 200)])).per_sequence == 0.0
    assert sane(Speed(-0.01, 0.001)).rate(10) > 0


def test_a_guess_has_the_reference_runs_order_of_magnitude() -> None:
    speed = guess(72.33 * 2**30, 1792e9, held=4000 * 70_272, experts=384, chosen=8)
    assert speed.rate(40) == pytest.approx(680, rel=0.3)


@pytest.mark.parametrize(("mean", "prompts"), [(1577.04, 6341), (3793.63, 2636)])
def test_prompts_for_ten_million(mean: float, prompts: int) -> None:
    assert prompts_for(10_000_000, mean) == prompts


def test_eighty_million_tokens() -> None:
    assert seconds(80_000_000, 930) / 3600 == pytest.approx(23.9, abs=0.05)


def test_prefill_and_decode_take_turns() -> None:
    work = Work(generated=100_000, prefilled=PREFILL * 60, decodes=40)
    one, two = of(work, Speed(0.04, 0.0005), error=0.25), of(work, Speed(0.04, 0.0005), servers=2)
    assert one.seconds == pytest.approx(100_000 * (0.04 / 40 + 0.0005) + 60)
    assert two.seconds == pytest.approx(one.seconds / 2)
    assert (one.low, one.high) == (pytest.approx(one.seconds / 1.25), pytest.approx(one.seconds * 1.25))
    assert together([one, one]) == Span(2 * one.seconds, 2 * one.low, 2 * one.high)
