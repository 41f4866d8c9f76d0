"""Samples of what the engines are doing, for the run's ``load.jsonl`` and for the seats' governors."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from draftmill.engines.protocol import Load
from draftmill.errors import EngineError
from draftmill.journal.reader import encode
from draftmill.mill import clock
from draftmill.mill.seat import Seat

_EVERY = 10.0  # seconds where every cap is fixed
_EVERY_GOVERNED = 5.0  # where a governor follows what it sees
_EVERY_AT_FIRST = 2.0  # where it still looks for the right load
_FIRST = 300.0  # seconds that this takes


class Outlook(msgspec.Struct, frozen=True):
    """What the loop knows and no server does. ``held``: tokens that a request is expected to hold on average, over its
    life, of a KV cache; ``draining``: nothing is left to be sent."""

    held: float
    draining: bool


async def sample_loads(
    seats: list[Seat], put: Callable[[bytes], None], outlook: Callable[[], Outlook], wake: Callable[[], None]
) -> None:
    """Hand a line for each seat to ``put`` and its load to the seat, again and again, until cancelled.

    ``wake`` is called where a seat takes more than before.
    """
    began = clock.now()
    while True:
        governed = any(seat.governor for seat in seats)
        for seat in list(seats):
            load = await _load(seat)
            put(encode(_line(seat, load)))
            seat.progress.seen(clock.now(), load)
            if load is not None:
                view, cap = outlook(), seat.cap
                seat.govern(load, view.held, view.draining)
                if seat.cap > cap:
                    wake()
        first = clock.now() - began < _FIRST
        await asyncio.sleep((_EVERY_AT_FIRST if first else _EVERY_GOVERNED) if governed else _EVERY)


async def _load(seat: Seat) -> Load | None:
    try:
        return await seat.engine.load()
    except EngineError:
        return None  # the seat's own state says what is wrong with it


def _line(seat: Seat, load: Load | None) -> dict[str, object]:
    return {
        "time": round(time.time(), 3),
        "engine": seat.engine.name,
        "state": seat.state.value,
        "in_flight": seat.in_flight,
        "cap": seat.cap,
        "load": load,
    }
