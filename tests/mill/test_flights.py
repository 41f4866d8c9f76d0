import pytest

from draftmill.mill.flights import DecodeRate, Flights
from draftmill.mill.forecast import Forecast


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def flights(*finished: int, limit: int = 1000) -> tuple[Flights, Clock]:
    forecast, clock = Forecast(limit), Clock()
    for tokens in finished:
        forecast.add(tokens, cut=False)
    forecast.refresh(())
    return Flights(forecast, clock), clock


def test_the_rate_is_that_of_the_long_ones_and_no_single_hang_moves_it() -> None:
    rate = DecodeRate()
    assert rate.median() == 0
    for _ in range(20):
        rate.note(1000, 50)  # 20 tokens a second
        rate.note(10, 5)  # a short one that stood in the queue
    rate.note(1000, 600)  # one that hung
    rate.note(3, 0)
    assert rate.median() == 20
    for _ in range(64):
        rate.note(1000, 100)
    assert rate.median() == 10


def test_nothing_known_is_the_limit_for_each() -> None:
    under_way, _ = flights()
    for position in range(3):
        under_way.take(position, beside=7)
    assert (under_way.expected(), under_way.most(), len(under_way)) == (3021, 3021, 3)


def test_an_answer_grows_with_the_time_since_it_was_sent() -> None:
    under_way, clock = flights(*[100, 900] * 500)
    for position in range(3):
        under_way.take(position)
        under_way.sent(position, 1000)
    assert under_way.expected() == pytest.approx(1500, rel=0.01)
    clock.now = 10
    under_way.landed(0, 200)  # 20 tokens a second: the others have passed 100 too
    assert under_way.expected() == pytest.approx(1800, rel=0.01)
    clock.now = 30
    under_way.landed(1, None)  # given up: it says nothing about the speed
    assert under_way.expected() == pytest.approx(900, rel=0.01)
    under_way.landed(2, 600)
    assert (under_way.expected(), len(under_way)) == (0, 0)


def test_exact_counts_go_before_the_clock() -> None:
    under_way, clock = flights(*[100, 900] * 500)
    for position in range(2):
        under_way.take(position)
        under_way.sent(position, 1000)
    under_way.partial(1, 300)
    assert under_way.expected() == pytest.approx(1400, rel=0.01)
    clock.now = 1
    under_way.partial(1, 310)
    clock.now = 2
    under_way.landed(0, 60)
    assert under_way.expected() == pytest.approx(900, rel=0.01)


def test_what_will_be_sent_again_does_not_grow_and_begins_where_it_is_continued() -> None:
    under_way, clock = flights(*[100, 900] * 500)
    for position in range(3):
        under_way.take(position)
        under_way.sent(position, 1000)
    clock.now = 10
    under_way.waits(0)
    under_way.partial(1, 200)
    under_way.waits(1)
    clock.now = 1000
    under_way.landed(2, 20_000)
    assert under_way.expected() == pytest.approx(500 + 900, rel=0.01)


def test_an_engine_with_less_room_bounds_its_answers() -> None:
    under_way, _ = flights(*[100, 900] * 500)
    under_way.take(0)
    under_way.sent(0, 500)
    assert under_way.expected() == pytest.approx(300, rel=0.01)
