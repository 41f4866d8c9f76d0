"""The engines of a run: which are wanted, which have a seat, and those that are tried again until they answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from draftmill.errors import DraftmillError, EngineError
from draftmill.ledger.told import UNTIL
from draftmill.mill import clock
from draftmill.mill.loop import Loop
from draftmill.mill.mishaps import Mishaps
from draftmill.mill.seat import Seat, State
from draftmill.recipe import EngineSpec, named

_AGAIN_SECONDS = 15.0  # after which an engine that did not answer is tried again


class Roster:
    """``take(spec)`` opens an engine and examines it; raises an EngineError where it does not answer, any other
    DraftmillError where it may not be used. ``release(seat)`` closes one that is taken out. ``tell(kind, subject,
    message)`` hears of every engine that is not there.
    """

    def __init__(
        self,
        specs: Iterable[EngineSpec],
        take: Callable[[EngineSpec], Awaitable[Seat]],
        tell: Callable[[str, str, str], None],
        release: Callable[[Seat], Awaitable[None]] = Seat.close,
    ) -> None:
        self.seats: list[Seat] = []
        self._take = take
        self._release = release
        self._tell = tell
        self._wanted = named(specs)
        self._seated: dict[str, tuple[EngineSpec, Seat]] = {}
        self._due: dict[str, float] = {}  # when an absent one is tried again
        self._refused: dict[str, EngineSpec] = {}  # not tried again as it stands
        self._work: dict[str, asyncio.Task[None]] = {}
        self._mishaps = Mishaps(tell)

    async def open(self) -> None:
        """Open all that are wanted, at once. Raises the first error where none answers, and any that is no EngineError.

        Those that do not answer now are told, and tried again by ``tend``.
        """
        names = list(self._wanted)
        taken = await asyncio.gather(*map(self._seat, names), return_exceptions=True)
        self.seats += [self._seated[name][1] for name in names if name in self._seated]
        for name, result in zip(names, taken, strict=True):
            if isinstance(result, BaseException):
                if not self.seats or not isinstance(result, EngineError):
                    raise result
                self._absent(name, result)

    def want(self, specs: Iterable[EngineSpec]) -> None:
        """From now on these are the run's engines; ``tend`` follows."""
        self._wanted = named(specs)
        self._due = {name: due for name, due in self._due.items() if name in self._wanted}

    def tend(self, loop: Loop) -> None:
        """Begin what is to be done: engines that are no longer wanted leave, those that are missing are tried."""
        for name, task in list(self._work.items()):
            if task.done():
                del self._work[name]
                if not task.cancelled() and (error := task.exception()):
                    self._mishaps.hear(name, "could not be taken out", error)
        for name, (before, seat) in list(self._seated.items()):
            now = self._wanted.get(name)
            if name in self._work or now == before:
                continue
            if now is not None and now.model_copy(update={"concurrency": before.concurrency}) == before:
                seat.retune(now.concurrency)
                self._seated[name] = now, seat
            else:
                self._work[name] = asyncio.create_task(self._leave(name, seat, loop))
        for name, spec in self._wanted.items():
            waits = self._due.get(name, 0.0) > clock.now() or self._refused.get(name) == spec
            if name not in self._seated and name not in self._work and not waits:
                self._work[name] = asyncio.create_task(self._join(name, spec, loop))

    async def close(self) -> None:
        """Give up what is being tried, and close every engine."""
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)
        names = list(self._seated)
        ends = await asyncio.gather(*(seat.close() for _, seat in self._seated.values()), return_exceptions=True)
        for name, error in zip(names, ends, strict=True):
            if error:
                self._mishaps.hear(name, "could not be closed", error)

    async def _seat(self, name: str) -> None:
        spec = self._wanted[name]
        self._seated[name] = spec, await self._take(spec)

    async def _leave(self, name: str, seat: Seat, loop: Loop) -> None:
        alone = all(other is seat or other.state is State.LEAVING for other in loop.seats)
        where = "once an engine is put in" if alone else "at the others"
        self._tell("leaves", name, f"taken out of the run; what it has goes on {where}")
        await loop.leave(seat)
        try:
            await self._release(seat)
        except Exception as error:
            self._mishaps.hear(name, "could not be closed", error)
        del self._seated[name]  # not before it is closed: a run that ends meanwhile closes all that have a seat

    async def _join(self, name: str, spec: EngineSpec, loop: Loop) -> None:
        try:
            seat = await self._take(spec)
        except EngineError as error:
            self._absent(name, error)
        except DraftmillError as error:
            self._refused[name] = spec
            self._tell("refused", name, error.message)
        except Exception as error:
            self._refused[name] = spec
            self._mishaps.hear(name, "could not be taken in", error)
        else:
            self._due.pop(name, None)
            self._seated[name] = spec, seat
            self._tell("joins", name, f"{seat.cap} at once to begin with")
            loop.join(seat)

    def _absent(self, name: str, error: EngineError) -> None:
        if name not in self._due:
            self._tell("absent", name, f"the run goes on without it {UNTIL}{error.message}")
        self._due[name] = clock.now() + _AGAIN_SECONDS
