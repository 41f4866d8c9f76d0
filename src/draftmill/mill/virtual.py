"""An event loop in virtual time: where a real loop would sleep, it jumps to the next timer.

For code that waits on timers and on other code of the same loop only: no sockets, no other threads. What is handed to
a thread (``asyncio.to_thread``) runs at once, in place, and takes no virtual time.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, NamedTuple, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RESOLUTION = 1e-9  # timers nearer than that are due together; the rounding of a day's sums is far below it


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set: what is awaited can never come."""


class Ran(NamedTuple):
    """What a coroutine returned, and the virtual seconds that it took."""

    result: Any
    seconds: float


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at time 0. Timers fire in order of their times, and equal ones in the order in which they were set.

    ``began`` is what a clock on the wall shows then.
    """

    def __init__(self, began: float = 0.0) -> None:
        self._now = 0.0
        self._began = began
        super().__init__(_Jump(self._pass))
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        return self._now

    def wall(self) -> float:
        """What ``mill.clock.wall`` tells."""
        return self._began + self._now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _pass(self, seconds: float) -> None:
        self._now += seconds


class _Jump(selectors.SelectSelector):
    """Waits by telling the clock to move on."""

    def __init__(self, move: Callable[[float], None]) -> None:
        super().__init__()
        self._move = move

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set: what is awaited can never come")
        if timeout > 0:
            self._move(timeout)
        return []


def run(main: "Coroutine[Any, Any, Any]", began: float = 0.0) -> Ran:
    """Run a coroutine to its end in virtual time. Raises what it raises."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(began)) as runner:
        loop = runner.get_loop()
        result = runner.run(main)
        return Ran(result, loop.time())
