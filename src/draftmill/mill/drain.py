"""The end of calls in flight: beginnings kept where engines give them, time to finish where they do not."""

import asyncio
from collections.abc import Callable, Mapping

from draftmill.errors import EngineError, in_words
from draftmill.mill.call import Call

_CANCEL_SECONDS = 10.0  # for calls that are ended to come back, or to let go of their connections

Calls = Mapping["asyncio.Task[None]", Call]


async def drain(
    calls: Calls, seconds: float, hurry: asyncio.Event, tell: Callable[[str], None], *, asks: bool = True
) -> None:
    """Engines that can give beginnings end their calls, the others' calls get ``seconds`` to finish.

    What has no end then is let go; its position stays owed, with its beginning where there is one. ``calls`` may shrink
    as they end. Without ``asks``, and from when ``hurry`` is set, nothing is waited for.
    """
    if calls and asks:
        patient = asyncio.create_task(_patiently(dict(calls), seconds, tell))
        hurried = asyncio.create_task(hurry.wait())
        await asyncio.wait({patient, hurried}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (patient, hurried):
            waiting.cancel()
        for error in await asyncio.gather(patient, hurried, return_exceptions=True):
            if isinstance(error, Exception):
                tell(f"engines could not be asked to end what is in flight: {in_words(error)}")
    rest = {task for task in calls if not task.done()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_CANCEL_SECONDS)


async def _patiently(calls: Calls, seconds: float, tell: Callable[[str], None]) -> None:
    asked = await asyncio.gather(*map(_ask, calls.values()))
    ended = {task for task, gives in zip(calls, asked, strict=True) if gives}
    if ended:
        tell(f"{len(ended)} answers in flight are ended; their beginnings are kept")
        await asyncio.wait(ended, timeout=_CANCEL_SECONDS)
    if rest := set(calls) - ended:
        tell(f"{len(rest)} in flight get up to {seconds:.0f} s to finish")
        await asyncio.wait(rest, timeout=seconds)


async def _ask(call: Call) -> bool:
    if not call.stream.continues:
        return False
    try:
        return await asyncio.wait_for(call.seat.engine.abort(call.request.tag), _CANCEL_SECONDS)
    except (EngineError, TimeoutError):
        return False
