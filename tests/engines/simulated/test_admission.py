"""Whom SGLang's rules admit and retract."""

from collections import deque

import pytest

from draftmill.engines.simulated import Answers
from draftmill.engines.simulated.admission import (
    LEAST_RATIO,
    RATIO,
    Admission,
    admit,
    decayed,
    ratio_after_retraction,
    retraction_order,
)
from draftmill.engines.simulated.sequence import Sequence

ANSWER = Answers().of([20])


def sequence(prompt: int, limit: int = 100, generated: int = 0) -> Sequence:
    return Sequence("t", [20] * prompt, ANSWER, limit, limit, 0, generated)


def admitted(queue: list[Sequence], running: list[Sequence], free: int, **changed: object) -> Admission:
    options = {"ratio": 0.5, "chunk": 1000, "max_running": 10, "hit": lambda s: 0} | changed
    return admit(deque(queue), running, None, free=free, **options)  # type: ignore[arg-type]


def test_a_newcomer_needs_its_whole_reservation() -> None:
    for free, count in ((201, 0), (202, 1), (402, 1), (403, 2)):  # prompt 100 + limit 100 + a page of 1, and one more
        assert len(admitted([sequence(100), sequence(100)], [], free).takes) == count


def test_who_runs_is_counted_by_the_ratio() -> None:
    running = [sequence(10, limit=1000, generated=200)]
    for free, count in ((202 + 400, 1), (201 + 400, 0)):
        assert len(admitted([sequence(100)], running, free).takes) == count


def test_reservations_look_no_further_than_4096_tokens() -> None:
    assert admitted([sequence(100, limit=100_000)], [], 100 + 4096 + 2).takes
    assert not admitted([sequence(100, limit=100_000)], [], 100 + 4096 + 1).takes


def test_the_first_that_does_not_fit_closes_the_door() -> None:
    found = admitted([sequence(50), sequence(5000), sequence(50)], [], 1000)
    assert ([len(t.sequence.prompt_ids) for t in found.takes], found.full) == ([50], True)
    found = admitted([sequence(5000)], [], 1000)
    assert (found.takes, found.full) == ([], False)  # nobody runs, so nobody will open it again


def test_a_pass_is_one_chunk() -> None:
    found = admitted([sequence(600), sequence(600), sequence(600)], [], 10**6)
    assert ([take.tokens for take in found.takes], found.full) == ([600, 400], False)


def test_no_more_than_may_run() -> None:
    found = admitted([sequence(1)] * 3, [sequence(1)] * 8, 10**6)
    assert (len(found.takes), found.full) == (2, True)


def test_a_cached_prefix_is_not_computed_but_held() -> None:
    found = admitted([sequence(600)], [], 10**6, hit=lambda s: 512)
    assert [(take.tokens, take.hit) for take in found.takes] == [(88, 512)]
    assert not admitted([sequence(600)], [], 701, hit=lambda s: 512).takes


def test_the_ratio() -> None:
    assert decayed(RATIO, 0) == RATIO
    assert decayed(RATIO, 300) == pytest.approx((RATIO + LEAST_RATIO) / 2)
    assert decayed(RATIO, 600) == pytest.approx(LEAST_RATIO)
    assert decayed(RATIO, 10**6) == LEAST_RATIO
    running = [sequence(10, limit=1000, generated=100), sequence(10, limit=1000, generated=300)]
    assert ratio_after_retraction(running) == pytest.approx((400 + 40) / 2001)
    assert ratio_after_retraction([sequence(10, limit=10, generated=9)]) == 1.0


def test_who_lost_least_goes_first() -> None:
    a, b, c = sequence(10, generated=5), sequence(99, generated=5), sequence(1, generated=1)
    assert retraction_order([a, b, c]) == [c, b, a]
