"""Axes: round ticks, and time without what nothing ran in."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.watch.report.axes import TimeAxis, elapsed, short, ticks


@given(st.floats(1e-6, 1e12), st.integers(1, 8))
def test_ticks_hold_the_top_in_few_equal_steps(top: float, most: int) -> None:
    found = ticks(top, most)
    assert found[0] == 0 and found[-1] >= top * (1 - 1e-6) and found[-2] < top
    assert len(found) <= most + 1
    assert all(b - a == pytest.approx(found[1]) for a, b in pairwise(found))


def test_ticks_of_nothing() -> None:
    assert ticks(0.0) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.5, "0.5"), (250.0, "250"), (1000.0, "1k"), (1500.0, "1.5k"), (1e7, "10M"), (2.5e9, "2.5G")],
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0"), (30, "30s"), (300, "5m"), (3600, "1h"), (5400, "1h30"), (86_400, "1d"), (129_600, "1d12h")],
)
def test_elapsed(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


@given(st.lists(st.floats(0.1, 1e6), min_size=0, max_size=40))
def test_time_runs_from_0_to_1_and_never_back(steps: list[float]) -> None:
    times = [1e9]
    for step in steps:
        times.append(times[-1] + step)
    axis = TimeAxis(times)
    places = [axis.at(t) for t in times]
    assert places == sorted(places) and places[0] == 0 and places[-1] <= 1 + 1e-9
    assert axis.at(0.0) == 0 and axis.at(1e12) == places[-1]
    assert len(axis.breaks) == len(axis.spans) - 1
    assert all(-1e-9 <= at <= 1 + 1e-9 for at, _ in axis.ticks())
    assert len(axis.ticks()) <= 8 + len(axis.spans)


def test_a_night_between_two_starts_is_left_out() -> None:
    axis = TimeAxis([*range(0, 610, 10), *range(50_000, 50_610, 10)])
    assert axis.seconds == 1200
    assert axis.at(600) == pytest.approx(0.494, abs=0.002)
    assert axis.at(50_000) == pytest.approx(0.506, abs=0.002)
    assert axis.at(20_000) == axis.at(600)  # what happened in between stands at its beginning
    (found,) = axis.breaks
    assert found == pytest.approx((axis.at(600), axis.at(50_000)))
    assert [label for _, label in axis.ticks()] == ["0", "5m", "10m", "15m", "20m"]
