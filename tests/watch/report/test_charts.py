"""Charts: what they draw is what the figures say."""

from itertools import pairwise

import pytest

from draftmill.watch.loads import Point
from draftmill.watch.report import charts
from draftmill.watch.report.axes import TimeAxis
from draftmill.watch.report.charts import Label, Line


def point(time: float, tokens: int | None, running: int = 4, kv: float | None = None) -> Point:
    return Point(time, {} if tokens is None else {"d": tokens}, running, 0, running, 8, kv, None)


def axis_of(points: list[Point]) -> TimeAxis:
    return TimeAxis([p.time for p in points])


def test_rates_are_tokens_by_seconds_and_none_between_starts() -> None:
    first = [point(t, 100 * t) for t in range(0, 610, 10)]
    later = [point(50_000 + t, 60_000 + 300 * t) for t in range(0, 610, 10)]
    one, two = charts.rates(axis_of(first + later), first + later)
    assert {round(rate) for _, rate in one} == {100}
    assert {round(rate) for _, rate in two} == {300}


def test_rates_where_tokens_are_not_known() -> None:
    points = [point(t, None) for t in range(0, 100, 5)]
    assert charts.rates(axis_of(points), points) == []


def test_a_line_ends_where_nobody_said_it() -> None:
    points = [point(t, 0, kv=None if 300 <= t < 600 else 0.5) for t in range(0, 910, 10)]
    runs = charts.binned(axis_of(points), points, lambda p: p.kv_use)
    assert len(runs) == 2 and {y for run in runs for _, y in run} == {0.5}


def test_one_sample_is_a_chart() -> None:
    points = [point(5.0, 7)]
    axis = axis_of(points)
    line = Line("running", "one", charts.binned(axis, points, lambda p: p.running))
    chart = charts.over_time(axis, [line], title="t", unit="u")
    assert chart and [e.text for e in chart.ends] == ["running"]


def test_nothing_known_is_no_chart() -> None:
    points = [point(t, 0) for t in range(10)]
    axis = axis_of(points)
    assert (
        charts.over_time(axis, [Line("KV", "one", charts.binned(axis, points, lambda p: p.kv_use))], title="", unit="")
        is None
    )
    assert charts.distribution([], title="", unit="", rules=[], note="") is None


def test_labels_of_lines_that_end_together_are_apart_and_inside() -> None:
    points = [point(t, 0) for t in range(100)]
    axis = axis_of(points)
    lines = [Line(n, "one", [[(0.0, 5.0), (1.0, 0.01 * i)]]) for i, n in enumerate("abcd")]
    chart = charts.over_time(axis, lines, title="", unit="")
    assert chart
    places = [e.at for e in chart.ends]
    assert all(b - a >= 17 - 1e-9 for a, b in pairwise(places)) and max(places) <= chart.height


def test_marks_that_are_near_share_a_number() -> None:
    points = [point(t, t) for t in range(100)]
    axis = axis_of(points)
    line = Line("", "one", [[(0.0, 1.0), (1.0, 2.0)]])
    chart = charts.over_time(axis, [line], title="", unit="", marks=[(1, 0.1), (2, 0.11), (3, 0.12), (4, 0.9)])
    assert chart and chart.marks == [Label("1–3", 10.0), Label("4", 90.0)]
    assert sum(path.style == "mark" for path in chart.paths) == 4  # each has its line all the same


def test_a_single_answer_of_many_is_seen() -> None:
    bins = [(0, 10, 100_000.0), (10, 20, 1.0), (20, 30, 0.0)]
    chart = charts.distribution(bins, title="d", unit="", rules=[(5.0, "median"), (99.0, "limit")], note="")
    assert chart
    (bars,) = [path.d for path in chart.paths if "bars" in path.style]
    assert bars.count("M") == 2 and "v1.0h" in bars
    assert [m.text for m in chart.marks] == ["median"]  # the limit was not reached


def test_shares() -> None:
    drawn = charts.shares([(0.25, "good"), (0.0, "warn"), (0.75, "track")])
    assert [path.style for path in drawn] == ["good bars", "track bars"]
    assert drawn[1].d.startswith("M250.0 0.0h750.0")


@pytest.mark.parametrize("seconds", [3, 60, 86_400 * 3])
def test_lines_have_few_points_however_long_the_run(seconds: int) -> None:
    points = [point(seconds * n / 1400, 10 * n) for n in range(1400)]
    for runs in (charts.rates(axis_of(points), points), charts.binned(axis_of(points), points, lambda p: p.running)):
        assert 5 <= sum(map(len, runs)) <= 170
