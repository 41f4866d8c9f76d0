"""Samples of what the engines are doing, for the run's ``load.jsonl``."""

import asyncio
import time
from collections.abc import Callable

from draftmill.engines.protocol import Load
from draftmill.errors import EngineError
from draftmill.journal.reader import encode
from draftmill.mill.seat import Seat

_EVERY = 10.0  # seconds


async def sample_loads(seats: list[Seat], put: Callable[[bytes], None]) -> None:
    """Hand a line for each seat to ``put``, again and again, until cancelled."""
    while True:
        for seat in seats:
            put(encode(await _sample(seat)))
        await asyncio.sleep(_EVERY)


async def _sample(seat: Seat) -> dict[str, object]:
    load: Load | None = None
    try:
        load = await seat.engine.load()
    except EngineError:
        pass  # the seat's own state says what is wrong with it
    return {
        "time": round(time.time(), 3),
        "engine": seat.engine.name,
        "state": seat.state.value,
        "in_flight": seat.in_flight,
        "load": load,
    }
