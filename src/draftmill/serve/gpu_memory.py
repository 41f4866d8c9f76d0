"""Whether the memory of GPUs is free again after a server has gone, and who holds it where it is not."""

import asyncio
import time
from collections.abc import Callable, Sequence

from draftmill.machine.gpus import Gpu, Holder, gpus, holders

_SLACK = 1 << 30  # bytes that a driver keeps, or that others took meanwhile
_WAIT = 30.0  # seconds that a driver gets to take back what a dead process had
_LOOK = 0.5
_GIB = 2**30


async def freed(
    before: Sequence[Gpu],
    used: Sequence[int],
    *,
    look: Callable[[], list[Gpu]] = gpus,
    who: Callable[[], list[Holder]] = holders,
    wait: float = _WAIT,
) -> list[str]:
    """Wait until the GPUs ``used`` have as much free as ``before``. Returns what is still held and by whom, in words.

    All that draftmill started is gone by then, so who still holds memory is none of ours, and is left alone.
    """
    until = time.monotonic() + wait
    while True:
        now = look()
        short = [i for i in used if i < min(len(now), len(before)) and now[i].free < before[i].free - _SLACK]
        if not short:
            return []
        if time.monotonic() >= until:
            return [_told(i, before[i].free - now[i].free, who()) for i in short]
        await asyncio.sleep(_LOOK)


def taken(now: Sequence[Gpu], used: Sequence[int], found: Sequence[Holder]) -> list[str]:
    """What others hold of the GPUs ``used`` before a server is started there, in words."""
    return [
        _told(i, now[i].memory - now[i].free, found)
        for i in used
        if i < len(now) and now[i].memory - now[i].free > 2 * _SLACK
    ]


def _told(gpu: int, held: float, found: Sequence[Holder]) -> str:
    who = ", ".join(
        f"process {h.pid} ({h.name}{f', {h.bytes / _GIB:.1f} GiB' if h.bytes else ''})" for h in found if h.gpu == gpu
    )
    return f"GPU {gpu}: {held / _GIB:.1f} GiB are held by {who or 'nobody that can be seen from here'}"
