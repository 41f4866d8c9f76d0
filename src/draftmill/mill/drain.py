"""The end of what is in flight: beginnings kept where engines give them, time to finish where they do not."""

import asyncio
from collections.abc import Callable, Mapping

from draftmill.errors import EngineError
from draftmill.mill.call import Call

_CANCEL_SECONDS = 10.0  # for calls that are ended to come back, or to let go of their connections

Calls = Mapping["asyncio.Task[None]", Call]
Tasks = set["asyncio.Task[None]"]


async def drain(calls: Calls, seconds: float, tell: Callable[[str, str, str], None], *, asks: bool) -> None:
    """At a stop: engines that can give beginnings end their calls, the others' calls get ``seconds`` to finish.

    What has no end then is let go; its position stays owed, with its beginning where there is one. ``calls`` shrinks
    as they end. Without ``asks`` nothing is waited for.
    """
    if calls and asks:
        rest = set(calls) - await _end(dict(calls), tell)
        if rest:
            tell("drain", "run", f"{len(rest)} in flight get up to {seconds:.0f} s to finish; Ctrl-C again: none")
            await asyncio.wait(rest, timeout=seconds)
    for task in calls:
        task.cancel()
    if calls:
        await asyncio.wait(set(calls), timeout=_CANCEL_SECONDS)


async def _end(calls: Calls, tell: Callable[[str, str, str], None]) -> Tasks:
    """End the calls whose engines can give beginnings, and wait for those. Returns them."""
    asked = await asyncio.gather(*map(_ask, calls.values()))
    ended = {task for task, gives in zip(calls, asked, strict=True) if gives}
    if ended:
        tell("drain", "run", f"{len(ended)} answers in flight are ended; their beginnings are kept")
        await asyncio.wait(ended, timeout=_CANCEL_SECONDS)
    return ended


async def _ask(call: Call) -> bool:
    if not call.stream.continues:
        return False
    try:
        return await asyncio.wait_for(call.seat.engine.abort(call.request.tag), _CANCEL_SECONDS)
    except (EngineError, TimeoutError):
        return False
