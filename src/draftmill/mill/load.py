"""Samples of what the engines are doing, for the run's ``load.jsonl`` and for the seats' governors."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from math import inf
from os import SEEK_END
from pathlib import Path

import msgspec

from draftmill.engines.protocol import Load
from draftmill.errors import EngineError
from draftmill.ids import encode
from draftmill.mill import clock
from draftmill.mill.governor import LOOK
from draftmill.mill.growth import Growth
from draftmill.mill.mishaps import Mishaps
from draftmill.mill.seat import Seat

_EVERY = 10.0  # seconds where every cap is fixed
_LINES = 0.9 * LOOK  # seconds between two lines of a server at least, however often its governor looks

_TAIL = 1 << 18  # bytes of the file's end: the last lines of more engines than there ever are


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


class _Told(msgspec.Struct):
    done: dict[str, Done] = {}


def answers_told(path: Path, dataset: str) -> int:
    """How many whole answers of a dataset the last start that sampled loads has told of, by the end of its file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, SEEK_END) - _TAIL))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        with suppress(msgspec.DecodeError, msgspec.ValidationError):
            if done := msgspec.json.decode(line, type=_Told).done:
                return done[dataset].answers if dataset in done else 0
    return 0


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

    ``outlook`` is asked for each governed seat, of whose requests so many wait at the server, as often as its governor
    wants to look. ``wake`` is called where a seat takes more than before. A fault costs the sample that it comes in.
    """
    told = -inf
    while True:
        tells = clock.now() - told >= _LINES
        if tells:
            told = clock.now()
            try:
                put(encode({"time": clock.wall(), "done": done()}))
            except Exception as error:  # as below
                mishaps.hear("run", "what is done could not be told", error)
        for seat in list(seats):
            try:
                load = await _load(seat)
                if tells:
                    put(encode(_line(seat, load)))
                seat.progress.seen(clock.now(), load)
                if load is not None and seat.governor:
                    view, before = outlook(seat, load.queued), seat.ceiling
                    seat.govern(load, view.growth, view.draining)
                    if seat.ceiling > before:
                        wake()
            except Exception as error:  # whatever it is, the answers do not depend on it
                mishaps.hear(seat.engine.name, "its load could not be sampled", error)
        await asyncio.sleep(min((seat.look for seat in seats if seat.governor), default=_EVERY))


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
