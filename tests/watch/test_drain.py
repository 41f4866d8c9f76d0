"""The end of a run, played through."""

import time

import numpy as np
import pytest

from draftmill.watch.drain import MOST, Part, drain
from draftmill.watch.lengths import Histogram


def lengths(*tokens: int) -> Histogram:
    made = Histogram()
    made.add_all(np.array(tokens))
    return made


def spread(mean: float = 1000.0) -> Histogram:
    drawn = np.random.default_rng(7).lognormal(np.log(mean) - 0.4, 0.9, 3000)
    return lengths(*np.clip(drawn, 1, 10_240).astype(int))


def one(running: np.ndarray) -> np.ndarray:
    return np.where(running > 0, 1.0, 0.0)


def test_one_answer_whose_age_is_known() -> None:
    end = drain([Part("d", lengths(64), 1, ages=(24,))], one)
    assert end.seconds == pytest.approx(40) and end.tokens == pytest.approx(40)


def test_nothing_in_flight() -> None:
    assert not drain([Part("d", lengths(64), 0)], one).seconds.any()


def test_a_budget_sends_more_and_counts_only_its_own() -> None:
    by_prompts, by_budget = (drain([Part("d", spread(), 40, budget=budget)], one) for budget in (False, True))
    assert by_budget.seconds.mean() > 1.03 * by_prompts.seconds.mean()
    assert by_budget.tokens.mean() < 1.2 * by_prompts.tokens.mean()


def test_who_sent_its_last_one_early_ends_early() -> None:
    late, early = (drain([Part("d", lengths(*[2000] * 9), 20, lead=lead)], one) for lead in (0.0, 1500.0))
    assert late.seconds.max() > 1500 > 500 >= early.seconds.max()


def test_of_very_many_only_the_last_ones_are_played() -> None:
    few, many = (drain([Part("d", spread(), number)], one).seconds.mean() for number in (MOST, 50 * MOST))
    assert many > few


def test_it_is_cheap_and_says_the_same_again() -> None:
    parts = [Part(str(n), spread(500.0 * (n + 1)), 8, budget=True) for n in range(8)]
    began = time.process_time()
    first, again = drain(parts, one), drain(parts, one)
    assert time.process_time() - began < 0.2
    assert (first.seconds == again.seconds).all()
