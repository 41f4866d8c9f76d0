"""The answers of one dataset that are under way, and how many tokens are expected of them."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from draftmill.mill.forecast import Forecast

_WINDOW = 64  # finished answers whose speed is believed: enough for a steady median, few enough to follow a change
# All expectations are worked out again after a 32nd of what is in flight has landed. Between, each stays what it was:
# too low by what the answer has grown since, under a 32nd of a length; and a landing costs 32 evaluations at any load.
_STALE = 32


class DecodeRate:
    """Tokens a second of one answer, from the last finished ones: their median, weighed by the seconds they took.

    By seconds, since long answers tell the speed and short ones their time in the queue; the median, since one answer
    that hung says nothing of the others.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_WINDOW)
        self._median: float | None = 0.0

    def note(self, tokens: float, seconds: float) -> None:
        """An answer grew by so many tokens in so many seconds, from its sending to its end."""
        if seconds > 0:
            self._seen.append((tokens / seconds, seconds))
            self._median = None

    def median(self) -> float:
        """Tokens a second; 0 while nothing has finished."""
        if self._median is None:
            self._median = self._middle()
        return self._median

    def _middle(self) -> float:
        half = sum(seconds for _, seconds in self._seen) / 2
        for rate, seconds in sorted(self._seen):
            half -= seconds
            if half <= 0:
                return rate
        return 0.0


@dataclass(slots=True)
class _Flight:
    """One answer under way: ``tokens`` were there at ``since``, infinite while it is not at an engine."""

    beside: int
    limit: int
    tokens: int
    since: float
    expected: float


class Flights:
    """What is under way, by position. ``now`` is the clock that says how long.

    Exact counts come in by ``partial``; from there on, and where there are none, an answer is taken to grow at the
    speed that finished ones had.
    """

    def __init__(self, forecast: Forecast, now: Callable[[], float]) -> None:
        self._forecast = forecast
        self._now = now
        self._rate = DecodeRate()
        self._flights: dict[int, _Flight] = {}
        self._beside = 0
        self._expected = 0.0
        self._landed = 0  # since all expectations were worked out

    def __len__(self) -> int:
        return len(self._flights)

    def take(self, position: int, beside: int = 0) -> None:
        """A prompt is on its way to an engine; ``beside``: tokens that count beside its answer."""
        flight = _Flight(beside, self._forecast.limit, 0, inf, self._forecast.mean())
        self._flights[position] = flight
        self._beside += beside
        self._expected += flight.expected

    def sent(self, position: int, limit: int) -> None:
        """It was given to an engine just now, under this limit of all its tokens."""
        flight = self._flights[position]
        other, flight.limit, flight.since = limit != flight.limit, limit, self._now()
        if other:
            self._update(flight)

    def partial(self, position: int, tokens: int) -> None:
        """Just now it has exactly so many tokens."""
        flight = self._flights[position]
        flight.tokens = tokens
        if flight.since < inf:
            flight.since = self._now()
        self._update(flight)

    def waits(self, position: int) -> None:
        """It is at no engine any more and will be sent again, from the tokens that ``partial`` named, or from none."""
        flight = self._flights[position]
        flight.since = inf
        self._update(flight)

    def landed(self, position: int, tokens: int | None) -> None:
        """It has ended with so many tokens; None: without an answer."""
        flight = self._flights.pop(position)
        self._beside -= flight.beside
        self._expected -= flight.expected
        self._landed += 1
        if tokens is not None and flight.since < inf:
            self._rate.note(tokens - flight.tokens, self._now() - flight.since)

    def there(self, position: int) -> float:
        """How many tokens it has just now, as far as that is known."""
        flight = self._flights[position]
        return flight.tokens + self._rate.median() * max(0.0, self._now() - flight.since)

    def heard(self) -> int:
        """Tokens of all answers under way, as far as the servers tell while they grow: nothing is guessed."""
        return sum(flight.tokens for flight in self._flights.values())

    def answers(self) -> float:
        """What ``roughly`` gives, without what counts beside the answers."""
        return self.roughly() - self._beside

    def roughly(self) -> float:
        """``expected`` as it was an eighth of all answers ago at most: costs nothing but a new curve then."""
        if self._forecast.stale(1 / 8):
            self._refresh()
        return self._beside + self._expected

    def most(self) -> int:
        """A bound of ``expected`` that costs nothing."""
        return self._beside + len(self._flights) * self._forecast.limit

    def expected(self) -> float:
        """Expected tokens that count of all that is under way, once it has ended."""
        self.refresh()
        return self._beside + self._expected

    def refresh(self) -> None:
        """Work out all expectations again where enough has landed since, and the forecast with them."""
        if self._landed * _STALE >= len(self._flights) and self._landed:
            self._refresh()

    def _refresh(self) -> None:
        rate, now, forecast = self._rate.median(), self._now(), self._forecast
        there = [f.tokens + (rate * (now - f.since) if f.since < now else 0) for f in self._flights.values()]
        forecast.refresh(there)
        for flight, done in zip(self._flights.values(), there, strict=True):
            flight.expected = forecast.expected(done, flight.limit)
        self._expected = sum(flight.expected for flight in self._flights.values())
        self._landed = 0

    def _update(self, flight: _Flight) -> None:
        before, flight.expected = flight.expected, self._forecast.expected(flight.tokens, flight.limit)
        self._expected += flight.expected - before
