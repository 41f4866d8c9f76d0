"""Samples of what the engines are doing, for the run's ``load.jsonl`` and for the seats' governors."""

import asyncio
from collections.abc import Callable

import msgspec

from draftmill.engines.protocol import Load
from draftmill.errors import EngineError
from draftmill.ids import encode
from draftmill.mill import clock
from draftmill.mill.growth import Growth
from draftmill.mill.mishaps import Mishaps
from draftmill.mill.seat import Seat

_EVERY = 10.0  # seconds where every cap is fixed
_EVERY_GOVERNED = 2.0  # where a governor follows what it sees


class Outlook(msgspec.Struct, frozen=True):
    """What the loop knows of one server and the server does not. ``growth``: what is in flight there; ``draining``:
    nothing is left to be sent."""

    growth: Growth
    draining: bool


class Done(msgspec.Struct, frozen=True):
    """What this start has done of one dataset: whole answers, error rows, the answers' tokens, and the tokens that are
    there of answers that have not ended, as far as servers tell while they grow.
    ``left``: tokens that are expected to be generated still, by prompts or budget, whichever ends it first."""

    answers: int
    failed: int
    tokens: int
    growing: int
    left: int


async def sample_loads(
    seats: list[Seat],
    put: Callable[[bytes], None],
    outlook: Callable[[Seat, int], Outlook],
    done: Callable[[], dict[str, Done]],
    wake: Callable[[], None],
    mishaps: Mishaps,
) -> None:
    """Hand a line for each seat, and one of all datasets, to ``put`` and its load to the seat, again and again, until
    cancelled.

    ``outlook`` is asked for each governed seat, of whose requests so many wait at the server. ``wake`` is called where
    a seat takes more than before. A fault costs the sample that it comes in.
    """
    while True:
        governed = any(seat.governor for seat in seats)
        try:
            put(encode({"time": clock.wall(), "done": done()}))
        except Exception as error:  # as below
            mishaps.hear("run", "what is done could not be told", error)
        for seat in list(seats):
            try:
                load = await _load(seat)
                put(encode(_line(seat, load)))
                seat.progress.seen(clock.now(), load)
                if load is not None and seat.governor:
                    view, before = outlook(seat, load.queued), seat.ceiling
                    seat.govern(load, view.growth, view.draining)
                    if seat.ceiling > before:
                        wake()
            except Exception as error:  # whatever it is, the answers do not depend on it
                mishaps.hear(seat.engine.name, "its load could not be sampled", error)
        await asyncio.sleep(_EVERY_GOVERNED if governed else _EVERY)


async def _load(seat: Seat) -> Load | None:
    try:
        return await seat.engine.load()
    except EngineError:
        return None  # the seat's own state says what is wrong with it


def _line(seat: Seat, load: Load | None) -> dict[str, object]:
    return {
        "time": clock.wall(),
        "engine": seat.engine.name,
        "state": seat.state.value,
        "in_flight": seat.in_flight,
        "cap": seat.ceiling,
        "load": load,
    }
