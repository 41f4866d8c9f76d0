"""How long a run waits for engines that take its work."""

from collections.abc import Sequence
from typing import Protocol

from draftmill.errors import DraftmillError, RunError
from draftmill.mill import clock
from draftmill.mill.seat import Seat, State


class Keeper(Protocol):
    """Whoever keeps the run's own servers alive: ``coming`` while one is started again, ``lost`` says why none will."""

    def coming(self) -> bool: ...
    def lost(self) -> DraftmillError | None: ...


class Patience:
    """``seconds`` without an open engine, not counting those in which the ``keeper`` starts one again."""

    def __init__(self, seconds: float, keeper: Keeper | None = None) -> None:
        self._seconds = seconds
        self._keeper = keeper
        self._none_since: float | None = None
        self._awaited = 0.0  # when the keeper last had a server that was to come

    def ended(self, seats: Sequence[Seat], busy: bool, failing_since: float | None) -> DraftmillError | None:
        """Why the run ends: no open seat, or none that could hold what is left (it is not ``busy``), or faults without
        one answer since ``failing_since``, all for too long; at once where every seat refuses, or no server will come.
        """
        now, keeper = clock.now(), self._keeper
        if keeper and (error := keeper.lost()) and not any(seat.state is State.OPEN for seat in seats):
            return error
        if keeper and keeper.coming():
            self._awaited = now
        if busy and any(seat.state in (State.OPEN, State.DOUBTED) for seat in seats):
            self._none_since = None
        else:
            self._none_since = self._none_since or now
        refused = bool(seats) and all(
            seat.state is State.PAUSED and not (seat.ever_answered or seat.failures) for seat in seats
        )
        since = min((t for t in (self._none_since, failing_since) if t is not None), default=None)
        if refused or (since is not None and now - max(since, self._awaited) >= self._seconds):
            why = "; ".join(f"{seat.engine.name} is {seat.state.value}: {_fault(seat)}" for seat in seats)
            advice = "mend the engine and run the same command again; what was in flight is owed, nothing is lost"
            return RunError(f"no engine takes work: {why or 'all were taken out'}", advice)
        return None


def _fault(seat: Seat) -> str:
    """Its last fault without its name, which faults begin with."""
    return seat.last_fault.removeprefix(f"{seat.engine.name}: ")
