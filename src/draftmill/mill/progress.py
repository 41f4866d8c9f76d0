"""Whether a server does anything for the requests that it has of ours. No clock, no I/O.

A health call may answer while nothing is generated, and a long queue is no fault: what counts is whether the server
moves at all. It does while any of its signals but the queue changes, or while ids or answers come.
"""

from draftmill.engines.protocol import Load


class Progress:
    def __init__(self) -> None:
        self._since: float | None = None  # when it was seen to move last, or got its first request
        self._signs: tuple[object, ...] = ()

    def heard(self, now: float) -> None:
        """Ids or an answer came."""
        self._since = now

    def seen(self, now: float, load: Load | None) -> None:
        """A sample of its load; None where it does not answer that."""
        signs = self._signs if load is None else (load.running, load.kv_used, load.preemptions, load.work)
        if signs != self._signs:
            self._signs, self._since = signs, now

    def idle(self, now: float, in_flight: int) -> float:
        """Seconds without any progress although it has requests of ours. To be asked often."""
        if not in_flight:
            self._since = None
        elif self._since is None:
            self._since = now
        return 0.0 if self._since is None else now - self._since
