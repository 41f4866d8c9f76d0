"""Distances of two distributions, against what they are over a whole vocabulary."""

import numpy as np
import pytest

from draftmill.compare.distance import distance, first_difference, survival
from draftmill.engines.protocol import Scored

VOCABULARY = 50


def distributions(seed: int, apart: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, VOCABULARY)
    other = logits + rng.normal(0, apart, VOCABULARY)
    return tuple(values - np.log(np.exp(values).sum()) for values in (logits, other))  # type: ignore[return-value]


def told(logprobs: np.ndarray, id: int, top: int) -> Scored:
    likeliest = np.argsort(-logprobs, kind="stable")[:top]
    return Scored([float(logprobs[id])], [{int(i): float(logprobs[i]) for i in likeliest}])


def exact(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    p, q = np.exp(one), np.exp(other)
    return float(abs(p - q).sum() / 2), float((p * (one - other)).sum())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("top", [1, 5, 20, VOCABULARY])
def test_from_below_and_exact_where_all_is_told(seed: int, top: int) -> None:
    one, other = distributions(seed, 0.5)
    variation, divergence = exact(one, other)
    found = distance([7], told(one, 7, top), told(other, 7, top))
    assert found.kl is not None
    assert found.refused <= variation + 1e-6 and found.kl <= divergence + 1e-6
    if top == VOCABULARY:
        assert found.refused == pytest.approx(variation, abs=1e-5)
        assert found.kl == pytest.approx(divergence, abs=1e-4)
    elif top == 20:
        assert found.refused > 0.8 * variation


def test_nothing_lies_between_a_distribution_and_itself() -> None:
    one, _ = distributions(0, 0.5)
    found = distance([49], told(one, 49, 5), told(one, 49, 5))
    assert (found.absolute, found.refused, found.kl, found.other_top) == (0.0, 0.0, 0.0, 0)


def test_ids_alone_give_the_same_share_on_average() -> None:
    one, other = distributions(3, 0.3)
    variation, _ = exact(one, other)
    drawn = np.random.default_rng(0).choice(VOCABULARY, 20_000, p=np.exp(one)).tolist()
    found = distance(drawn, Scored([float(one[i]) for i in drawn]), Scored([float(other[i]) for i in drawn]))
    assert found.kl is None and found.other_top is None
    assert found.refused / found.ids == pytest.approx(variation, rel=0.05)


def test_other_likeliest_ids_are_counted() -> None:
    same = {1: -0.1, 2: -3.0}
    found = distance([1, 1], Scored([-0.1, -0.1], [same, same]), Scored([-0.1, -0.9], [same, {2: -0.6, 1: -0.9}]))
    assert (found.ids, found.other_top) == (2, 1)


def test_never_and_no_number_are_bounded() -> None:
    never = Scored([float("-inf"), float("nan")])
    found = distance([1, 2], Scored([-1.0, -1.0]), never)
    assert found.absolute == pytest.approx(98.0) and found.refused == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ([1, 2, 3], [1, 9, 3], (True, 2)),
        ([1, 2, 3], [1, 2, 3], (False, 3)),
        ([1, 2], [1, 2, 3], (False, 2)),
        ([1], [2], (True, 1)),
        ([], [], (False, 0)),
    ],
)
def test_where_greedy_answers_part(one: list[int], other: list[int], found: tuple[bool, int]) -> None:
    assert first_difference(one, other) == found


def test_answers_that_ended_alike_are_no_longer_at_risk() -> None:
    watched = [(True, 2), (False, 3), (True, 5), (False, 5)]
    assert survival(watched, [1, 2, 4, 5]) == pytest.approx([0.0, 0.25, 0.25, 1 - 0.75 * 0.5])
    assert survival([], [4]) == [0.0]
