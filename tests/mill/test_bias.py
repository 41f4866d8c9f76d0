"""That the counting rows are a fair sample, against a toy server at a tenth of the full size.

``benchmarks/bench_bias.py`` does the same at full size.
"""

import random
from pathlib import Path

import pytest

from tests.mill.toy_run import Sample, Stop, ToyRun, ids_of, write_prompts
from tests.mill.world import World

SEEDS = 60
WORLDS = [World(sigma=sigma, budget=1_000_000, at_once=15) for sigma in (0.9, 1.2)]


def outcomes(path: Path, world: World, stop: Stop | None = None, seeds: int = SEEDS) -> Sample:
    folder = write_prompts(path / "a", world)
    ids = ids_of(folder)
    return Sample(world, [ToyRun(folder, ids, world, seed).run(stop) for seed in range(seeds)])


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: f"sigma {w.sigma}")
def test_the_mean_of_what_counts_is_that_of_the_population(tmp_path: Path, world: World) -> None:
    tested = outcomes(tmp_path, world)
    assert abs(tested.z()) < 3
    surplus = tested.surplus()
    # fifteen at once spread the sum of what is in flight by about 1 % of the budget, √10 times as much as at full size
    assert surplus[SEEDS // 2] < 0.01 and surplus[-1] < 0.04


def test_what_counts_is_what_would_count_without_any_dispatch(tmp_path: Path) -> None:
    world = WORLDS[0]
    for seed, outcome in enumerate(outcomes(tmp_path, world, seeds=10).outcomes):
        rng, lengths = random.Random(seed), []
        while sum(lengths) < world.budget:
            lengths.append(world.draw(rng))
        assert (outcome.rows, outcome.tokens) == (len(lengths), sum(lengths))


def test_the_first_to_finish_are_too_short(tmp_path: Path) -> None:
    folder = write_prompts(tmp_path / "a", WORLDS[0])
    ids = ids_of(folder)
    runs = [ToyRun(folder, ids, WORLDS[0], seed).first_to_finish() for seed in range(SEEDS)]
    assert Sample(WORLDS[0], runs).z() < -4


def test_stops_do_no_harm_where_answers_are_continued(tmp_path: Path) -> None:
    assert abs(outcomes(tmp_path, WORLDS[0], Stop("keep")).z()) < 3


def test_kills_do_none_where_little_of_the_partial_answers_is_lost(tmp_path: Path) -> None:
    assert abs(outcomes(tmp_path, WORLDS[0], Stop("checkpoint", every=1)).z()) < 3


def test_drawing_afresh_what_was_in_flight_makes_the_data_shorter(tmp_path: Path) -> None:
    tested = outcomes(tmp_path, WORLDS[0], Stop("redraw"))
    assert tested.z() < -8 and tested.bias() < -0.05


def test_surplus_stays_small_where_the_server_queues_and_its_speed_changes(tmp_path: Path) -> None:
    world = World(budget=1_000_000, at_once=15, admitted=6, pace=lambda running: 0.03 + 0.005 * running)
    surplus = outcomes(tmp_path, world, seeds=30).surplus()
    assert surplus[15] < 0.015 and surplus[-1] < 0.05


def test_the_population_s_moments_are_those_of_its_draws() -> None:
    rng = random.Random(1)
    draws = [WORLDS[1].draw(rng) for _ in range(100_000)]
    mean, deviation = WORLDS[1].moments()
    assert sum(draws) / len(draws) == pytest.approx(mean, rel=0.01)
    assert (sum((n - mean) ** 2 for n in draws) / len(draws)) ** 0.5 == pytest.approx(deviation, rel=0.01)
