"""The speed of a server out of its own history, on the load points of a real one."""

import pytest

from draftmill.capacity.speed import Speed, fit
from draftmill.engines.simulated import Answers, Lengths, ServerSpec
from draftmill.engines.simulated.passes import NANO
from draftmill.engines.simulated.server import Server

LOADS = ((35, 606), (52, 865), (72, 930), (142, 1375))  # sequences running, tokens a second: Kimi-K2.5 on eight cards


def measured(speed: Speed, running: int) -> float:
    """Tokens a second of a simulated server that decodes so many long answers."""
    server = Server(ServerSpec(kv_tokens=10**7, speed=speed), Answers(Lengths(50_000, 0)), lambda sequence: None)
    for n in range(running):
        server.submit(str(n), [n + 20] * 30, 20_000, 0)
    server.advance(500 * NANO)
    assert server.load(500 * NANO).running == running
    return server.load(500 * NANO).generation_rate or 0.0


@pytest.mark.parametrize("known", [(0, 3)])  # the two farthest apart: neighbours magnify their noise
def test_two_loads_give_the_other_two(known: tuple[int, int]) -> None:
    speed = fit([LOADS[i] for i in known])
    for running, rate in LOADS:
        assert measured(speed, running) == pytest.approx(rate, rel=0.10)


def test_the_reference_speed_gives_all_four() -> None:
    for running, rate in LOADS:
        assert measured(Speed(0.0415, 0.00044), running) == pytest.approx(rate, rel=0.10)
