"""The mill's one clock: the event loop's, so that a loop in virtual time carries the mill with it."""

import asyncio
import time


def now() -> float:
    """Seconds on the running event loop's clock."""
    return asyncio.get_running_loop().time()


def wall() -> float:
    """Unix seconds, as they stand in a run's files; those of a virtual loop since its beginning."""
    virtual = getattr(asyncio.get_running_loop(), "wall", None)
    return round(virtual() if virtual else time.time(), 3)
