"""Which dataset sends its next prompt."""

import time
from itertools import pairwise

import pytest

from draftmill.mill.mixing import Owed, furthest_behind, next_to_send, total


def sent(whole: list[float], step: list[float], chain: list[float] | None = None, at_once: int = 40) -> list[list[int]]:
    """Send answers of ``step`` tokens until nothing is owed. Returns at which dispatch each dataset sent."""
    left, chains = list(whole), chain or [0.0] * len(whole)
    turns: list[list[int]] = [[] for _ in whole]
    for turn in range(100_000):
        owed = [Owed(*three) for three in zip(left, whole, chains, strict=True)]
        ready = [i for i, tokens in enumerate(left) if tokens > 0]
        if not ready:
            return turns
        index = next_to_send(ready, ["short"] * len(whole), owed, "together", at_once)
        left[index] -= step[index]
        turns[index].append(turn)
    raise AssertionError("it does not end")


def test_all_end_together_whatever_they_owe_and_however_long_their_answers_are() -> None:
    turns = sent([1e6, 1e6, 1e5, 5e6], [1000, 4000, 1000, 2500])
    last = max(map(max, turns))
    assert all(max(mine) > 0.99 * last for mine in turns)
    assert all(max(b - a for a, b in pairwise(mine)) < 2.5 * last / len(mine) for mine in turns)  # evenly spread


def test_long_answers_are_on_their_way_a_little_earlier() -> None:
    whole, step = [1e6, 1e6], [1000.0, 4000.0]
    short, long = sent(whole, step, [3000, 9000])
    last = sum(turn > max(long) for turn in short) / len(short)
    assert last == pytest.approx(40 * 6000 / 2e6, rel=0.1)  # 40 at once grow by 6,000 each, of 2 M in all
    assert min(short) < 5


def test_a_very_small_run_does_not_send_all_its_long_answers_first() -> None:
    short, long = sent([20_000, 20_000], [1000, 4000], [3000, 9000])
    assert min(short) < max(long) < max(short)


def test_a_dataset_that_could_not_send_catches_up() -> None:
    owed = [Owed(50, 100), Owed(80, 100), Owed(60, 100)]
    assert furthest_behind(owed, total(owed), 1) == 1
    assert next_to_send([0, 2], ["a", "b", "a"], owed, "together", 1) == 2
    assert next_to_send([0], ["a", "b", "a"], owed, "together", 1) == 0


def test_one_by_one_keeps_the_recipes_order_in_each_lane_and_mixes_the_lanes() -> None:
    lanes = ["short", "short", "long", "long"]
    owed = [Owed(10, 100), Owed(100, 100), Owed(80, 100), Owed(100, 100)]
    assert next_to_send([0, 1], lanes, owed, "one-by-one", 1) == 0
    assert next_to_send([1, 2, 3], lanes, owed, "one-by-one", 1) == 2  # of short 110 of 200 are left, of long 180
    assert next_to_send([0, 1, 2, 3], lanes, [*owed[:2], Owed(0, 100), Owed(50, 100)], "one-by-one", 1) == 0


def test_nothing_owed_is_no_fault() -> None:
    assert next_to_send([0, 1], ["a", "a"], [Owed(0, 0), Owed(0, 0)], "together", 0) == 0


def test_it_costs_no_more_than_a_look_at_each() -> None:
    def seconds(count: int) -> float:
        owed = [Owed(1e6 + i, 2e6, 100) for i in range(count)]
        began = time.process_time()
        for _ in range(200):
            next_to_send(range(count), ["short"] * count, owed, "together", 40)
        return time.process_time() - began

    assert seconds(400) < 25 * seconds(40)
