import random
from collections.abc import Callable
from itertools import pairwise
from math import exp, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.mill.forecast import Forecast
from tests.mill.world import World


def forecast(limit: int, finished: list[int], cut: list[int] = [], under_way: list[float] = []) -> Forecast:  # noqa: B006
    made = Forecast(limit)
    for tokens in finished:
        made.add(tokens, cut=False)
    for tokens in cut:
        made.add(tokens, cut=True)
    made._build(under_way)
    return made


def plain_kaplan_meier(limit: int, finished: list[int], censored: list[float]) -> Callable[[int], float]:
    """The same by the book, token for token, with the same prior: returns what is expected at so many tokens."""
    residual = (sum(finished) + sum(censored) + limit) / len(finished) if finished else inf
    alive, curve = 1.0, [1.0]  # P(longer than t)
    for t in range(1, limit):
        at_risk = sum(n >= t for n in finished) + sum(n >= t for n in censored)
        alive *= 1 - (finished.count(t) + 1 - exp(-1 / residual)) / (at_risk + 1)
        curve.append(alive)
    return lambda done: done + sum(curve[done:]) / curve[done]


short = st.lists(st.integers(1, 70), max_size=25)


@settings(max_examples=60, deadline=None)
@given(short, short, short, st.integers(1, 64))
def test_it_is_kaplan_meier_token_for_token_where_buckets_are_exact(
    finished: list[int], cut: list[int], under_way: list[int], limit: int
) -> None:
    by_the_book = plain_kaplan_meier(limit, finished, cut + under_way)
    made = forecast(limit, finished, cut, list(under_way))
    for done in range(0, limit, 3):
        assert made.expected(done) == pytest.approx(by_the_book(done))
    assert made.mean() == pytest.approx(made.expected(0), rel=1e-9)


long = st.lists(st.integers(1, 2500), min_size=1, max_size=30)


@settings(max_examples=25, deadline=None)
@given(long, long, st.sampled_from([0, 1, 60, 400, 1500, 1990]))
def test_above_it_is_off_by_less_than_two_buckets(finished: list[int], cut: list[int], done: int) -> None:
    expected = plain_kaplan_meier(2000, finished, cut)(done)
    # of censored answers within a bucket it knows only how many, so that with few answers their weight may be off too
    assert forecast(2000, finished, cut).expected(done) == pytest.approx(expected, rel=2 / 64 + 1 / len(finished + cut))
    assert forecast(2000, finished).expected(done) == pytest.approx(
        plain_kaplan_meier(2000, finished, [])(done), rel=2 / 64
    )


@given(long, long, st.lists(st.floats(0, 3000), max_size=20), st.integers(100, 3000), st.integers(1, 4000))
def test_it_grows_with_what_is_there_and_stays_within_the_limit(
    finished: list[int], cut: list[int], under_way: list[float], limit: int, own: int
) -> None:
    made = forecast(limit, finished, cut, under_way)
    steps = [limit * i / 40 for i in range(41)]
    for bound, figures in (
        (limit, [made.expected(done) for done in steps]),
        (min(own, limit), [made.expected(done, own) for done in steps]),
    ):
        assert all(b >= a - 1e-6 for a, b in pairwise(figures))
        assert all(min(done, bound) <= e + 1e-6 and e <= bound + 1e-6 for done, e in zip(steps, figures, strict=True))
        assert figures[-1] == bound
    alive = [made.survival(t) for t in steps]
    assert all(1 >= a >= b >= 0 for a, b in pairwise(alive))


@pytest.mark.parametrize(
    ("finished", "cut", "under_way", "low", "high"),
    [
        ([], [], [], 1000, 1000),  # nothing known: the limit
        ([], [], [30, 500], 1000, 1000),  # nothing has ended yet
        ([], [1000] * 50, [], 1000, 1000),  # every answer runs into the limit
        ([10], [], [], 250, 500),  # one answer is not much
        ([100] * 16, [], [], 100, 160),  # some
        ([100] * 1000, [], [], 100, 101),  # many
        ([100] * 500, [1000] * 500, [], 549, 551),  # a limit that cuts half of them
        ([100] * 50, [], [200] * 50, 250, 350),  # half of them still run, and nobody knows for how long
        ([1] * 999 + [10**6], [], [], 1.9, 3),  # longer than the limit, from a start with a higher one
        ([100, 300] * 100, [100] * 200, [], 249, 252),  # cut at 100 by a lower limit, hence not known to be short
        ([0] * 50, [], [], 0, 12),
    ],
)
def test_a_table_of_means(finished: list[int], cut: list[int], under_way: list[float], low: float, high: float) -> None:
    assert low <= forecast(1000, finished, cut, under_way).mean() <= high


def test_a_tiny_and_a_huge_limit() -> None:
    assert forecast(1, [1] * 5).mean() == pytest.approx(1)
    assert forecast(1 << 17, [100] * 1000).mean() == pytest.approx(100, rel=0.01)
    huge = forecast(1 << 40, [100] * 1000)
    assert 1 << 39 < huge.expected(1 << 39) <= 1 << 40


def test_an_answer_under_a_lower_limit_of_its_own_stops_there() -> None:
    made = forecast(1000, [100, 900] * 500)
    assert made.expected(0, 500) == pytest.approx(300, rel=0.01)
    assert made.expected(200, 500) == pytest.approx(500, rel=0.01)
    assert made.expected(600, 500) == 500


@pytest.mark.parametrize("sigma", [0.9, 1.2])
def test_it_finds_the_mean_where_the_finished_ones_alone_mislead(sigma: float) -> None:
    """150 run at once and each was begun at another time: of 1,500 begun, the longest are those that still run."""
    world, rng = World(sigma=sigma), random.Random(5)
    finished, cut, under_way = [], [], []
    for _ in range(1500):
        length, ran = world.draw(rng), rng.uniform(0, 12_000)
        if length > ran:
            under_way.append(ran)
        else:
            (cut if length == world.limit else finished).append(length)
    mean = world.moments()[0]
    assert forecast(world.limit, finished, cut, under_way).mean() == pytest.approx(mean, rel=0.04)
    assert sum(finished + cut) / len(finished + cut) < 0.85 * mean


def test_what_is_expected_of_a_running_answer_is_true() -> None:
    world, rng = World(), random.Random(6)
    lengths = [world.draw(rng) for _ in range(20_000)]
    made = forecast(world.limit, [n for n in lengths if n < world.limit], [n for n in lengths if n == world.limit])
    for done in (0, 500, 2000, 5000, 9000):
        longer = [n for n in lengths if n > done]
        assert made.expected(done) == pytest.approx(sum(longer) / len(longer), rel=0.005)


def test_it_is_built_again_a_number_of_times_that_grows_as_the_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    made, builds = Forecast(1000), [0]
    build = made._build
    monkeypatch.setattr(made, "_build", lambda under_way: (builds.__setitem__(0, builds[0] + 1), build(under_way)))
    rng = random.Random(0)
    for _ in range(10_000):
        made.add(rng.randrange(1, 900), cut=False)
        made.refresh(())
    assert builds[0] < 50 * 7
    assert made.mean() == pytest.approx(450, rel=0.03)
