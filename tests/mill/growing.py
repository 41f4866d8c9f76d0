"""An engine whose answers grow, told as a stream would."""

import asyncio

from draftmill.engines.protocol import Reply, Request
from draftmill.mill.loop import Ending, Loop
from draftmill.records import Finish
from tests.mill.scripted import (
    STOP,
    ScriptedEngine,
)


class Growing(ScriptedEngine):
    """Answers of 12 ids that grow by one every 10 ms, told as a stream would; an abort gives what is there."""

    WHOLE = 12

    def __init__(self, **identity: int) -> None:
        super().__init__(**identity)
        self.gives_beginnings = True
        self.grown = 0
        self.stands_at = 1 << 30
        self.freed = asyncio.Event()
        self._stops: dict[str, asyncio.Event] = {}
        self.behaviour = self._grow

    async def abort(self, tag: str) -> bool:
        if tag in self._stops:
            self._stops[tag].set()
        return self.gives_beginnings

    async def _grow(self, request: Request) -> Reply:
        stop = self._stops.setdefault(request.tag, asyncio.Event())
        told = self.listeners[request.tag]
        start = len(request.prompt_ids) - 3  # what is there of the answer already
        ids: list[int] = []
        for number in range(start, self.WHOLE):
            await asyncio.sleep(0.01)
            if self.grown >= self.stands_at:
                await self.freed.wait()
            ids = [*ids, STOP if number == self.WHOLE - 1 else 100 + number]
            self.grown += 1
            if told:
                told(ids)
            if stop.is_set():
                return Reply(ids, len(request.prompt_ids), len(ids), Finish.ABORT)
        return Reply(ids, len(request.prompt_ids), len(ids), Finish.STOP, STOP)


WHOLE = [*range(100, 111), STOP]


async def interrupt_at(loop: Loop, engine: Growing, grown: int) -> None:
    """Interrupt once the engine has generated so many ids in all."""
    while engine.grown < grown:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    loop.stop(Ending.INTERRUPTED)


def stuck(at: int) -> Growing:
    """Stands still from its ``at``-th id on, until it is ``freed``; its health calls answer."""
    engine = Growing()
    engine.stands_at = at
    return engine
