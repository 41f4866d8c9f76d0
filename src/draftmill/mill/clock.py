"""The mill's one clock: the event loop's, so that a loop in virtual time carries the mill with it."""

import asyncio


def now() -> float:
    """Seconds on the running event loop's clock."""
    return asyncio.get_running_loop().time()
