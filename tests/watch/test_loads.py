"""What ``load.jsonl`` says over time: rates by window, the timeline, the fit of a decode step, retractions."""

from itertools import pairwise
from pathlib import Path

import pytest

from draftmill.ledger.told import GOES_ON, PAUSED, paused_as
from draftmill.watch.events import Events
from draftmill.watch.figures import Phase, Rates
from draftmill.watch.loads import Done, EngineLoad, Loads, Point, Sample, Timeline
from draftmill.watch.rates import Marks, lately, rates
from tests.watch.folders import NOW, append, done, event, load


def test_the_timeline_stays_small_and_spans_everything() -> None:
    timeline = Timeline()
    for n in range(100_000):
        timeline.add(Point(float(n), {}, 1, 0, 1, 1, None, None))
    times = [point.time for point in timeline.points]
    assert 700 <= len(times) <= 1500 and times == sorted(times)
    assert times[0] == 0 and times[-1] > 99_000
    steps = {after - before for before, after in pairwise(times)}
    assert max(steps) <= 2 * min(steps), "evenly spaced"


def test_a_point_is_a_round_of_all_engines(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    for at in (NOW, NOW + 10, NOW + 20):
        append(path, done(at, d=(1, 0, 10, 5)))
        append(path, load(at, "http://a", kv_used=10, kv_total=100, generation_rate=5.0))
        append(path, load(at, "http://b", kv_used=50, kv_total=100, queued=3), load(at, "http://c", running=None))
    loads = Loads(path)
    loads.refresh()
    first, second = loads.timeline.points
    assert (first.time, second.time) == (NOW, NOW + 10)
    assert (first.running, first.queued, first.in_flight, first.kv_use, first.rate) == (16, 3, 24, 0.3, 5.0)
    assert first.tokens == {"d": 15}


def test_lines_without_the_runs_own_counts_make_points_too(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    append(path, *(load(NOW + 10 * n, "http://a") for n in range(4)), b'{"what": 1}\n', b"no json\n")
    loads = Loads(path)
    loads.refresh()
    assert [point.tokens for point in loads.timeline.points] == [{}, {}, {}]
    (unread,) = loads.unread
    assert (unread.lines, unread.first) == (2, 5)


def test_the_fit_of_a_decode_step() -> None:
    engine = EngineLoad("e")
    for n in range(20):
        running = 10 + 5 * n
        engine.add(NOW + n, Sample(running, 0, generation_rate=running / (0.042 + 0.00044 * running)))
    figures = engine.figures()
    assert (figures.base, figures.each) == (pytest.approx(0.042, rel=1e-3), pytest.approx(0.00044, rel=1e-3))
    assert figures.gain() == pytest.approx(0.042 / (0.042 + 0.00044 * 105), rel=1e-3)
    flat = EngineLoad("f")
    for n in range(20):
        flat.add(NOW + n, Sample(50, 0, generation_rate=800.0 + n))
    assert flat.figures().gain() is None, "one load says nothing of another"


def test_retractions_of_the_last_minute_over_a_restart_of_the_server() -> None:
    engine = EngineLoad("e")
    for at, count in ((0, 5), (30, 7), (40, 9), (50, 0), (80, 4)):
        engine.add(NOW + at, Sample(8, 0, preemptions=count))
    assert engine.figures().retractions == 2 + 4
    assert engine.figures().retracted == 4


def test_history_is_thinned_and_ends_now() -> None:
    engine = EngineLoad("e")
    for n in range(150):
        engine.add(NOW + 2 * n, Sample(n, 0))
    history = engine.figures().history
    assert len(history) <= 80 and history[-1][1] == 149


def test_rates_by_window(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    total = 0
    for n in range(61):
        append(path, done(NOW + 10 * n, d=(n, n // 20, total, 0)))
        total += 100 if n < 58 else 400
    loads = Loads(path)
    loads.refresh()
    now = NOW + 600
    found = rates("d", loads, Marks(), now, total)
    assert (found.last_10s, found.start) == (40.0, pytest.approx((58 * 100 + 2 * 400) / 600))
    assert found.last_5min == pytest.approx((28 * 100 + 2 * 400) / 300)
    recent = lately("d", loads, Marks(), now)
    assert recent and (recent.answers, recent.failed) == (30, 2)
    assert rates("other", loads, Marks(), now, 0).start is None
    stale = rates("d", loads, Marks(), now + 3600, total)
    assert stale.last_10s is None and stale.last_5min is None and stale.start == found.start


def test_a_watcher_counts_itself_where_the_run_does_not(tmp_path: Path) -> None:
    loads, marks = Loads(tmp_path / "load.jsonl"), Marks()
    for second in range(20):
        marks.add(NOW + second, Done(second, 0, 50 * second, 7))
    found = rates("d", loads, marks, NOW + 19, 1000)
    assert (found.last_10s, found.last_5min, found.start) == (50.0, 50.0, None)


def test_a_rate_that_is_told_at_the_ends_of_answers_only_is_unknown_between_them(tmp_path: Path) -> None:
    """llama.cpp: its work grows, its count of tokens does not; then one sample has them all."""
    path = tmp_path / "load.jsonl"
    for n, (rate, work) in enumerate([(None, 10), (0.0, 110), (0.0, 210), (90.0, 310), (0.0, 310)]):
        append(path, done(NOW + 10 * n, d=(0, 0, 0, 0)), load(NOW + 10 * n, generation_rate=rate, work=work))
        loads = Loads(path)
        loads.refresh()
        figures = loads.engines["http://e"].figures()
        assert figures.rate == [None, None, None, 30.0, 0.0][n], "0 only where nothing is worked at"
    append(path, load(NOW + 50, generation_rate=0.0, work=400), load(NOW + 60, generation_rate=90.0, work=500))
    loads.refresh()
    assert loads.engines["http://e"].figures().rate == 45.0, "the tokens of 20 s came at once"
    assert [p.rate for p in loads.timeline.points] == [None, None, None, 30.0, 0.0, None]


def test_no_rate_where_tokens_come_with_whole_answers_only(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    append(path, done(NOW, d=(0, 0, 0, 0), e=(0, 0, 0, 9)), done(NOW + 20, d=(0, 0, 0, 0), e=(0, 0, 0, 9)))
    loads = Loads(path)
    loads.refresh()
    assert rates("d", loads, Marks(), NOW + 20, 0) == Rates(), "no answer has ended, and nobody told of a beginning"
    assert rates("e", loads, Marks(), NOW + 20, 0).start == 0.0
    found = rates("d", loads, Marks(), NOW + 20, 780)
    assert found.start == found.run == 39.0, "one start: its answers came after its last count"
    append(path, done(NOW + 40, d=(1, 0, 400, 0)))
    loads.refresh()
    found = rates("d", loads, Marks(), NOW + 40, 9000)
    assert found.start == found.run == 10.0, "what was adopted was not generated here"


def test_a_start_after_one_that_had_no_token_is_another_one(tmp_path: Path) -> None:
    """Killed before its first answer: the hours until the next start are none of generating."""
    path, events = tmp_path / "load.jsonl", Events(tmp_path / "events.jsonl")
    again = NOW + 40_000
    append(tmp_path / "events.jsonl", event(NOW, "milling"), event(again, "milling"))
    append(path, *(done(NOW + 2 * n, d=(0, 0, 0, 0)) for n in range(3)))
    append(
        path, *(line for n in range(4) for line in (done(again + 10 * n, d=(n, 0, 100 * n, 0)), load(again + 10 * n)))
    )
    loads = Loads(path, events)
    events.refresh()
    loads.refresh()
    assert loads.first and loads.first[0] == again and loads.seconds == 4.0
    assert loads.progress({}) == [(again, 0), (again + 10, 100), (again + 20, 200)]
    found = rates("d", loads, Marks(), again + 30, 300)
    assert (found.start, found.run) == (10.0, pytest.approx(300 / 34))


def test_paused_time_is_none_of_generating(tmp_path: Path) -> None:
    """What was in flight ends first (10 s); then the run stands still, and goes on at the pace that it had."""
    path, events = tmp_path / "load.jsonl", Events(tmp_path / "events.jsonl")
    append(tmp_path / "events.jsonl", event(NOW, "milling"), event(NOW + 100, "control", "run", PAUSED))
    append(tmp_path / "events.jsonl", event(NOW + 1000, "control", "run", GOES_ON))
    tokens = 0
    for at in range(0, 1101, 10):
        idle = 110 <= at < 1000
        append(path, done(NOW + at, d=(1, 0, tokens, 0)), load(NOW + at, in_flight=0 if idle else 8))
        tokens += 0 if idle else 100
    loads = Loads(path, events)
    events.refresh()
    loads.refresh()
    assert loads.idle == 890.0
    found = rates("d", loads, Marks(), NOW + 1100, tokens)
    assert (found.last_5min, found.start, found.run) == (10.0, 10.0, 10.0)
    assert {after[1] - before[1] for before, after in pairwise(loads.progress({})) if after[0] > before[0]} == {100}


def test_a_run_that_begins_paused_and_one_that_was_killed_so(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events = Events(path)
    append(path, event(NOW, "start"), event(NOW + 1, "control", "run", paused_as(Path("c.yaml"))))
    append(path, event(NOW + 2, "milling"))
    events.refresh()
    assert events.phase is Phase.PAUSED and events.paused(NOW, NOW + 9) == 8.0
    append(path, event(NOW + 21, "milling"))
    events.refresh()
    assert events.phase is Phase.RUNNING and events.paused(NOW, NOW + 99) == 20.0
    append(path, event(NOW + 30, "control", "run", PAUSED), event(NOW + 40, "milling"))
    events.refresh()
    assert events.phase is Phase.RUNNING and events.paused(NOW + 25, NOW + 99) == 10.0


def test_a_token_or_two_of_many_answers_are_no_rate() -> None:
    """llama.cpp, on a CPU: a probe of one token ends, and a step takes longer than a look."""
    engine = EngineLoad("e")
    engine.add(NOW, Sample(0, 0, generation_rate=None, work=10))
    engine.add(NOW + 2, Sample(0, 0, generation_rate=0.0, work=10))
    looks = [(11, 0.0), (12, 0.5), (12, 0.0), (13, 0.0)]
    for n, (work, rate) in enumerate(looks, 2):
        load = engine.add(NOW + 2 * n, Sample(8, 0, generation_rate=rate, work=work))
        assert load and load.generation_rate is None
    assert (engine.figures().rate, engine.figures().mean_rate) == (None, None)
    engine.add(NOW + 12, Sample(8, 0, generation_rate=99.5, work=14))
    assert engine.figures().rate == engine.figures().mean_rate == 20.0, "200 tokens of 10 s"
    for n in range(1, 6):
        engine.add(NOW + 12 + 2 * n, Sample(8, 0, generation_rate=0.0, work=14))
    assert engine.figures().rate == 0.0, "it stands still"


@pytest.mark.parametrize(("step", "patience"), [(2.0, 12.0), (10.0, 22.0)])
def test_figures_are_old_by_how_often_they_come(tmp_path: Path, step: float, patience: float) -> None:
    """A server that hangs is none that goes on as it did."""
    path = tmp_path / "load.jsonl"
    for n in range(20):
        append(path, done(NOW + step * n, d=(n, 0, 100 * n, 9)))
    loads, marks = Loads(path), Marks()
    loads.refresh()
    last = NOW + 19 * step
    assert loads.patience == patience
    assert rates("d", loads, marks, last + patience, 1900).last_10s is not None
    for second in range(21):
        marks.add(last + second, Done(19, 0, 1900, 9))
    assert rates("d", loads, marks, last + patience + 1, 1900).last_10s is None
