"""How much room a server has, by hand-made curves and against what chance brings."""

import random

import pytest

from draftmill.mill.forecast import Forecast
from draftmill.mill.growth import Growth


def known(lengths: list[int], limit: int = 2000) -> Forecast:
    """A forecast that knows these lengths for sure."""
    forecast = Forecast(limit)
    for length in lengths * (10_000 // len(lengths)):
        forecast.add(length, cut=length == limit)
    forecast.refresh(())
    return forecast


THOUSAND = known([1000], limit=1000)  # every answer is cut there


def growth(
    flights: list[tuple[int, float]], forecast: Forecast = THOUSAND, prompt: int = 100, waits: int = 0
) -> Growth:
    """Answers in flight as (prompt, tokens there), the last ``waits`` of them in the server's queue."""
    made = Growth()
    for number, (tokens, there) in enumerate(flights):
        made.add(forecast, tokens, there, waits=number >= len(flights) - waits)
    made.newcomer(forecast, prompt)
    return made


@pytest.mark.parametrize(
    ("flights", "waits", "free", "room"),
    [
        # nothing is left to chance: just before its end a newcomer holds 1099
        ([], 0, 11_500, 10),
        ([(100, 0)] * 4, 0, 11_000, 6),  # they grow by 999 each: 7004 are left
        ([(100, 0)] * 4, 4, 11_300, 6),  # what waits will need its prompt too: 6904 are left
        ([(100, 990)] * 4, 0, 1050, 4),  # they end soon and leave 4360 behind: 5410
        ([(100, 300)] * 4, 0, 512 * 4 + 300, 0),
        ([(100, 300)] * 4, 0, 512 * 2, -2),  # 1024 too much
    ],
)
def test_what_is_certain(flights: list[tuple[int, float]], waits: int, free: int, room: int) -> None:
    assert growth(flights, waits=waits).room(free, margin=2.0) == room


def test_a_margin_for_chance() -> None:
    evenly = known(list(range(20, 2000, 20)))
    rooms = [growth([(100, 500)] * 20, evenly).room(40_000, margin) for margin in (0.0, 1.0, 2.0, 3.0)]
    assert rooms == sorted(rooms, reverse=True) and len(set(rooms)) == 4
    assert growth([(100, 500)] * 20, Forecast(2000)).room(40_000, 2.0) < rooms[2]  # a forecast that knows nothing


def test_the_margin_holds_what_it_says() -> None:
    """Where room says that there is none left, what comes is above the cache about as often as two deviations are."""
    chance = random.Random(1)
    lengths = [min(1999, 1 + int(chance.lognormvariate(6, 0.9))) for _ in range(500)]
    forecast = known(lengths)
    over = 0
    for _ in range(60):
        flights = []
        while len(flights) < 50:
            total = chance.choice(lengths)
            there = chance.randrange(2000)
            if there < total:
                flights.append((there, total))
        made = growth([(100, there) for there, _ in flights], forecast)
        low, high = 0, 100_000  # the least free space with room for none
        while high - low > 500:
            middle = (low + high) // 2
            low, high = (low, middle) if made.room(middle, 2.0) >= 0 else (middle, high)
        used = sum(100 + there for there, _ in flights)
        peak = max(sum(100 + there + h for there, total in flights if total > there + h) for h in range(0, 1024, 32))
        over += peak > used + high
    assert over < 10


def test_of_two_kinds_the_newcomer_is_their_mean() -> None:
    made = growth([])
    made.newcomer(THOUSAND, 2100)
    assert made.room(11_500 + 10_000, 2.0) == 10


def test_nothing_to_send_leaves_room() -> None:
    assert Growth().room(0, 2.0) > 2048
