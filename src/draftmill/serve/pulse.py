"""Whether a server that is ready still works: one may hang and live, and its health call answers all the same.

It works while any of its own figures but its queue moves. Where none does, it is asked for a token: an idle server
gives one at once, a busy one moves meanwhile, however long a prefill takes, and a dead one does neither.
"""

import asyncio
import time

from draftmill.engines import connect
from draftmill.engines.protocol import Load
from draftmill.errors import EngineError, SetupFault
from draftmill.recipe import EngineSpec
from draftmill.serve.readiness import one_token

_LOOK = 5.0  # seconds between two looks
_DOUBT = 60.0  # seconds without a sign of work after which it is asked for a token
_ANSWER = 30.0  # seconds that its figures may take
_FROZEN = 10.0  # seconds that a pause took longer than it should: this process stood still, and saw nothing meanwhile


class Pulse:
    """When it was seen to work last. No clock, no I/O. ``stall``: seconds without a sign of work that are too long."""

    def __init__(self, stall: float, now: float) -> None:
        self._stall = stall
        self._since = now
        self._signs: tuple[object, ...] = ()

    def works(self, now: float) -> None:
        """It gave a token, or nothing can be said of it."""
        self._since = now

    def seen(self, now: float, load: Load) -> None:
        """What it says that it is doing. One whose figures would not move while it works is never judged by them."""
        signs = (load.running, load.kv_used, load.preemptions, load.work)
        if signs != self._signs or (load.kv_used is None and load.work is None):
            self._signs, self._since = signs, now

    def doubtful(self, now: float) -> bool:
        """Whether it should be asked for a token."""
        return now - self._since >= min(_DOUBT, self._stall / 4)

    def stuck(self, now: float) -> bool:
        return now - self._since >= self._stall


async def until_stuck(spec: EngineSpec, stall: float) -> str:
    """Watch a server that is ready. Returns why it is taken for stuck, and never where it is not."""
    engine = await connect(spec)
    pulse, last = Pulse(stall, time.monotonic()), ""
    look, asked = min(_LOOK, stall / 8), None
    try:
        while not pulse.stuck(time.monotonic()):
            before = time.monotonic()
            await asyncio.sleep(look)
            if time.monotonic() - before > look + _FROZEN:
                pulse.works(time.monotonic())
            try:
                load = await asyncio.wait_for(engine.load(), min(_ANSWER, stall / 2))
                pulse.seen(time.monotonic(), load)
            except SetupFault:  # it answers, and shows no figures
                pulse.works(time.monotonic())
            except (EngineError, TimeoutError) as fault:
                last = fault.message if isinstance(fault, EngineError) else f"{engine.name}: no answer in time"
            if asked and asked.done():
                error, asked = asked.exception(), None
                if error is None:
                    pulse.works(time.monotonic())
                elif isinstance(error, EngineError):
                    last = error.message
                else:
                    raise error
            if asked is None and pulse.doubtful(time.monotonic()):
                asked = asyncio.create_task(one_token(engine))
        return f"no sign of work and no token for {stall:.0f} s" + (f": {last}" if last else "")
    finally:
        if asked:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        await engine.close()
