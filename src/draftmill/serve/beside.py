"""Servers kept alive beside something else, on an event loop and a thread of their own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from draftmill.errors import ServerError
from draftmill.serve.fleet import Fleet


class Beside:
    """What the one beside may ask of the servers, from its own thread."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @property
    def urls(self) -> list[str]:
        return self._fleet.urls

    def coming(self) -> bool:
        """Whether a server that is not there now is expected back."""
        return self._fleet.coming

    def lost(self) -> ServerError | None:
        """Why no server will come back, where none will."""
        return self._fleet.error


@contextmanager
def beside(make: Callable[[], Fleet]) -> Iterator[Beside]:
    """Start the servers, keep them alive while the context is open, and end them. Raises ServerError where none starts.

    However the process ends meanwhile, nothing of them is left.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="servers", daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, None]) -> None:
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            future.result()
        except BaseException:
            future.cancel()
            raise

    try:
        fleet = make()
        try:
            run(fleet.start())
            yield Beside(fleet)
        finally:
            run(fleet.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
