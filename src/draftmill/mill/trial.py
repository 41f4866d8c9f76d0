"""Prompts that were in flight at several engine deaths: each is tried alone, at an engine that is seen to work."""

import asyncio

from draftmill.engines.protocol import Engine, Request
from draftmill.errors import CapacityFault, EngineError, SetupFault, TransportFault
from draftmill.journal.prompts import PromptHead
from draftmill.mill.seat import Seat, State
from draftmill.mill.stream import Stream
from draftmill.mill.work import Work

WITNESS_TOKENS = 32  # enough to see an engine decode, over in seconds


class Trials:
    """Those that wait for their trial, in turn. While one is ``under_way`` nothing else is sent.

    Where nothing was answered since a prompt failed last, a *witness* is heard first: a prompt that has its answer is
    asked again for a few ids, which nobody keeps. An engine that fails it too fails by itself, and all are acquitted.
    """

    def __init__(self, streams: list[Stream]) -> None:
        self.under_way = False
        self._streams = streams
        self._waiting: list[Work] = []
        self._answered: tuple[Stream, PromptHead] | None = None

    def add(self, work: Work) -> None:
        self._waiting.append(work)

    def answered(self, stream: Stream, prompt: PromptHead) -> None:
        """This one may be a witness."""
        self._answered = stream, prompt

    def due(self, seats: list[Seat]) -> bool:
        """Whether one waits that an open engine could take."""
        if not self._waiting or self.under_way:
            return False
        return any(seat.state is State.OPEN and self._fits(seat) for seat in seats)

    def first(self, seats: list[Seat]) -> tuple[Work, Seat] | None:
        """Whose turn it is, and where; None while no engine has a place for it."""
        seat = next((seat for seat in seats if seat.free and self._fits(seat)), None)
        return (self._waiting[0], seat) if seat else None

    def begin(self) -> None:
        """The first one is sent now, with nothing else in flight."""
        self._waiting.pop(0).alone = self.under_way = True

    def witness(self, seat: Seat) -> tuple[Stream, PromptHead] | None:
        """A prompt that was answered, in this start or before it, and fits this engine."""
        before = ((stream, stream.answered_before()) for stream in self._streams)
        known = [self._answered] if self._answered else ((s, prompt) for s, prompt in before if prompt)
        return next((found for found in known if seat.room(len(found[1].prompt_ids)) >= WITNESS_TOKENS), None)

    def acquit(self) -> list[Work]:
        """Let all go: the engine fails without them too."""
        freed, self._waiting = self._waiting, []
        for work in freed:
            work.faults = work.trials = 0
        return freed

    def _fits(self, seat: Seat) -> bool:
        return seat.room(len(self._waiting[0].prompt.prompt_ids)) > 0


async def hear(engine: Engine, request: Request, seconds: float) -> EngineError | None:
    """Ask a witness, who gets so many seconds. Returns the fault of an engine that does not work; None where it
    answered, whatever it said."""
    try:
        await asyncio.wait_for(engine.generate(request), seconds)
    except TimeoutError:
        return TransportFault(
            f"{engine.name}: no answer within {seconds:.0f} s to a prompt that it had answered before"
        )
    except (CapacityFault, SetupFault, TransportFault) as fault:
        return fault
    except EngineError:
        pass
    return None
