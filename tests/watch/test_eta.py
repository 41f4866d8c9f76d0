"""When a run will be done. Whole runs of hours are in benchmarks/bench_eta.py."""

import asyncio
from pathlib import Path

import msgspec
import numpy as np
import pytest

from draftmill.engines.simulated import Lengths
from draftmill.mill import clock
from draftmill.mill.rehearsal import Stage, rehearse
from draftmill.mill.scene import Scene, SceneDataset
from draftmill.recipe import Lane
from draftmill.watch.eta import Pace, Work, foresee, pace, weights
from draftmill.watch.figures import DatasetFigures, EngineFigures, Eta
from draftmill.watch.lengths import Histogram
from draftmill.watch.stats import RunWatch
from tests.watch.folders import begin

STEADY = Pace(1000.0, 0.02)


def work(owed: int, finished: int = 5000, left: float | None = None, **fields: object) -> Work:
    lengths = Histogram()
    drawn = np.random.default_rng(7).lognormal(6.5, 0.9, finished)
    lengths.add_all(np.clip(drawn, 1, 10_240).astype(np.int64))
    figures = DatasetFigures(name="d", owed=owed, lengths=lengths.figures(), **fields)  # type: ignore[arg-type]
    return Work(figures, lengths, left)


def engine(running: int) -> EngineFigures:
    return EngineFigures(name="e", running=running, in_flight=running, base=0.04, each=0.0005)


def seen(*works: Work, pace: Pace | None = STEADY, running: int = 50) -> Eta:
    eta = foresee(list(works), [engine(running)], pace)
    assert eta and 0 <= eta.low < eta.seconds < eta.high
    return eta


def test_remaining_tokens_over_the_rate_and_the_drain_of_the_last_answers() -> None:
    many = work(50_000)
    eta = seen(many)
    mean = many.lengths.total / many.lengths.count
    assert eta.remaining == pytest.approx(50_000 * mean)
    assert eta.seconds == pytest.approx(50 * mean, rel=0.02), "far from the end the drain is little"
    few = seen(work(100))
    assert few.seconds > 1.5 * few.remaining / STEADY.rate, "near the end the longest answer decides"


def test_a_budget_ends_it_whatever_the_lengths_are() -> None:
    by_budget = seen(work(50_000, finished=200, budget=3_000_000, counted=1_000_000))
    assert by_budget.remaining == 2_000_000
    by_prompts = seen(work(2000, finished=200))
    assert (by_budget.high - by_budget.low) / by_budget.seconds < (
        by_prompts.high - by_prompts.low
    ) / by_prompts.seconds


def test_what_the_run_itself_expects_comes_first() -> None:
    assert seen(work(50_000, left=123_456.0)).remaining == 123_456


def test_more_that_is_known_makes_the_range_narrower() -> None:
    widths = [(eta.high - eta.low) / eta.seconds for n in (50, 500, 5000) for eta in [seen(work(20_000, finished=n))]]
    assert widths[0] > widths[1] > widths[2]


def test_mixed_datasets_leave_no_long_tail() -> None:
    long = Histogram()
    long.add_all(np.full(500, 8000))
    other = Work(DatasetFigures(name="l", owed=50, growing_answers=20), long, 100_000.0)
    short = work(200, left=100_000.0, growing_answers=30)
    engines = [engine(50)]
    together = foresee([short, other], engines, STEADY)
    apart = foresee([short, other], engines, STEADY, together=False)
    assert together and apart and together.seconds < apart.seconds


@pytest.mark.parametrize(
    ("owed", "given"),
    [(0, STEADY), (None, STEADY), (100, None)],
    ids=["nothing left", "prompts not known", "no pace yet"],
)
def test_nobody_knows(owed: int | None, given: Pace | None) -> None:
    assert foresee([work(owed)], [engine(8)], given) is None  # type: ignore[arg-type]


def test_the_pace_forgets_how_it_began_and_says_how_steady_it_was() -> None:
    assert pace([]) is None and pace([(0.0, 0.0), (30.0, 3000.0)]) is None
    steady = pace([(t, 100.0 * t) for t in range(0, 3600, 10)])
    assert steady and steady.rate == pytest.approx(100)
    slow_start = pace([(t, max(0.0, 100.0 * (t - 600))) for t in range(0, 3600, 10)])
    assert slow_start and slow_start.rate == pytest.approx(100)
    uneven = pace([(t, 100.0 * t + 20_000 * np.sin(t / 500)) for t in range(0, 3600, 10)])
    assert uneven and uneven.drift(3600, 0.01) > 2 * steady.drift(3600, 0.01)
    young = pace([(t, 100.0 * t) for t in range(0, 600, 10)], settling=600)
    old = pace([(t, 100.0 * t) for t in range(0, 7200, 10)], settling=600)
    assert young and old and young.early > 0.2 > 0.01 > old.early, "the first long answers have come and gone by then"
    assert pace([(t, 5.0) for t in range(0, 3600, 10)]) is None


def test_dearer_tokens_are_those_of_answers_that_hold_more_of_a_full_cache() -> None:
    dear, cheap = work(500), work(500)
    prompts = msgspec.structs.replace(dear.figures.lengths, mean=8000.0)  # type: ignore[type-var]
    dear = msgspec.structs.replace(
        dear, figures=msgspec.structs.replace(dear.figures, name="dear", prompt_lengths=prompts)
    )
    full = msgspec.structs.replace(engine(50), kv_use=0.9)
    weight = weights([dear, cheap], [full])
    assert weight["dear"] > 1.3 and weight["d"] < 0.7 and sum(weight.values()) == pytest.approx(2)
    assert weights([dear, cheap], [msgspec.structs.replace(full, kv_use=0.3)]) == {}, "what is sent decides"


def test_what_was_said_a_while_ago_is_sooner_by_that() -> None:
    now, before = (foresee([work(5000)], [engine(50)], STEADY, since=since) for since in (0.0, 60.0))
    assert now and before and before.seconds == pytest.approx(now.seconds - 60)


@pytest.mark.parametrize(("prompts", "budget", "seed"), [(1200, None, 0), (3000, 400_000, 0), (3000, 400_000, 1)])
def test_a_simulated_run_ends_when_it_was_told(tmp_path: Path, prompts: int, budget: int | None, seed: int) -> None:
    """From a tenth on nine looks in ten, within 20 % of what is left then and, at half, 7 % of the whole run: where a
    budget says how much is left. So few prompts leave more than that open by their lengths alone."""
    scene = Scene(
        (SceneDataset("d", prompts, 40, Lengths(200), budget=budget),),
        {"short": Lane(max_new_tokens=2000, concurrency=12)},
        concurrency=12,
        seed=seed,
    )
    begin(tmp_path, {"name": "d", "prompts": 1} | ({"budget": budget} if budget else {}))
    (tmp_path / "d" / "prompts.jsonl").unlink()
    told: list[tuple[float, int, Eta]] = []

    async def look(stage: Stage) -> None:
        watch = RunWatch(tmp_path, now=clock.now)
        while True:
            await asyncio.sleep(20.0)
            total = watch.refresh().total
            if total.eta:
                told.append((clock.now(), total.generated + total.growing, total.eta))

    seconds = rehearse(scene, folder=tmp_path, during=look).seconds
    late = [(time, eta) for time, _, eta in told if 0.1 * seconds <= time <= 0.98 * seconds]
    inside = [eta.low <= seconds - time <= eta.high for time, eta in late]
    assert len(inside) > 20 and sum(inside) >= 0.9 * len(inside)
    tenth, half = (next((t, e) for t, tokens, e in told if tokens >= share * told[-1][1]) for share in (0.1, 0.5))
    assert _width(tenth[1]) <= 0.20 * tenth[1].seconds
    assert _width(half[1]) <= (0.07 if budget else 0.08) * (half[0] + half[1].seconds)


def _width(eta: Eta) -> float:
    return (eta.high - eta.low) / 2
