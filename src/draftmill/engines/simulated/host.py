"""A simulated server on the clock of the running event loop, in real or in virtual time, with its troubles."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from draftmill.engines.protocol import Load
from draftmill.engines.simulated import wire
from draftmill.engines.simulated.answers import Answers
from draftmill.engines.simulated.passes import NANO
from draftmill.engines.simulated.sequence import Outcome, Sequence
from draftmill.engines.simulated.server import QueueFull, Server
from draftmill.engines.simulated.spec import ServerSpec
from draftmill.engines.simulated.trouble import Kind, Trouble


class Refused(Exception):
    """The server answers with a status that is not 200."""

    def __init__(self, status: int, body: wire.Body) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.body = body


class Gone(Exception):
    """The connection breaks, or nobody listens."""


class Host:
    """Takes requests while the loop runs; ``troubles`` are (second from now, trouble).

    ``struck`` counts the calls that each kind of trouble has hit.
    """

    def __init__(
        self, spec: ServerSpec, answers: Answers, troubles: Iterable[tuple[float, Trouble]] = (), jump: int = 1 << 60
    ) -> None:
        self.spec = spec
        self.server = Server(spec, answers, self._ended, jump)
        self.struck: Counter[Kind] = Counter()
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, tuple[Sequence, asyncio.Future[Sequence]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0  # the server's time when it was last asked for
        self._lost = 0  # nanoseconds that it has stood still
        self._stalled_until: int | None = None
        self._refusing: dict[Kind, tuple[float, int]] = {}  # until when, and how many calls more
        self._restart = spec.restart
        self._down = False
        self._plans = [self._loop.call_later(at, self.strike, trouble) for at, trouble in troubles]

    # calls

    async def generate(self, tag: str, prompt_ids: list[int], limit: int, seed: int | None = None) -> Sequence:
        """One request until it has ended. Raises Refused or Gone. A call that is cancelled frees the server."""
        self.answer_call(generation=True)
        if reason := wire.too_long(self.spec, len(prompt_ids), limit):
            raise Refused(400, wire.refusal(reason))
        if tag in self._waiting:
            raise Refused(400, wire.refusal(f"Duplicate request ID detected: {tag}"))
        now = self.now()
        try:
            sequence = self.server.submit(tag, prompt_ids, limit, now, seed)
        except QueueFull:
            raise Refused(503, wire.QUEUE_FULL) from None
        self._arm()
        if sequence.outcome is Outcome.LOST:  # its own prefill was the peak
            raise Gone
        future: asyncio.Future[Sequence] = self._loop.create_future()
        self._waiting[tag] = (sequence, future)
        try:
            ended = await future
        except asyncio.CancelledError:
            self.abort(tag)
            raise
        finally:
            self._waiting.pop(tag, None)
        if ended.outcome is Outcome.LOST:
            raise Gone
        if ended.outcome is Outcome.REFUSED:
            raise Refused(503, wire.QUEUE_FULL)
        return ended

    def abort(self, tag: str) -> asyncio.Future[Sequence] | None:
        """Let a request go; the future has it when it has left. None where there is no such request."""
        found = self._waiting.get(tag)
        if found is None:
            return None
        if self.server.alive:
            self.server.abort(found[0], self.now())
            self._arm()
        return found[1]

    def find(self, tag: str) -> Sequence | None:
        """A request under way."""
        found = self._waiting.get(tag)
        return found[0] if found else None

    def tags(self) -> list[str]:
        """All requests under way."""
        return list(self._waiting)

    def partial(self, sequence: Sequence) -> list[int]:
        """The ids of a request up to now."""
        return sequence.ids(self.server.generated(sequence, self.now()))

    def load(self) -> Load:
        """Its signals. Raises Refused or Gone."""
        self.answer_call()
        self.server.advance(self.now())
        self._arm()
        return self.server.load(self.now())

    def answer_call(self, generation: bool = False) -> None:
        """What every call meets first: raises Gone where nobody listens, Refused in a trouble."""
        if not self.server.alive:
            raise Gone
        if self._refuses(Kind.DENIED):
            raise Refused(401, {"error": "Unauthorized"})
        if self._refuses(Kind.ERROR):
            raise Refused(500, wire.failure(500, "Internal server error"))
        if generation and self._refuses(Kind.FULL):
            raise Refused(503, wire.QUEUE_FULL)

    # troubles

    def strike(self, trouble: Trouble) -> None:
        """Let a trouble happen now."""
        under_way = list(self._waiting)[: trouble.count or None]
        match trouble.kind:
            case Kind.DENIED | Kind.ERROR | Kind.FULL:
                until = self._loop.time() + trouble.seconds if trouble.seconds else float("inf")
                self._refusing[trouble.kind] = (until, trouble.count or 1 << 60)
            case Kind.RESET:
                for tag in under_way:
                    if (future := self.abort(tag)) and not future.done():
                        future.set_exception(Gone())
                        self.struck[Kind.RESET] += 1
            case Kind.ABORT:
                for tag in under_way:
                    self.struck[Kind.ABORT] += self.abort(tag) is not None
            case Kind.STALL if not self._standing_still() and self.server.alive:
                self.struck[Kind.STALL] += len(self._waiting)
                self.server.advance(self.now())
                self._stalled_until = round((self._loop.time() + trouble.seconds) * NANO)
                self._arm()
            case Kind.DEATH if self.server.alive:
                self._restart = trouble.seconds or self.spec.restart
                self.struck[Kind.DEATH] += len(self._waiting)
                self.server.die(self.now())
                self._arm()

    def revive(self) -> None:
        """Start the server again, empty."""
        self.server.revive(self.now())
        self._restart, self._down = self.spec.restart, False

    def close(self) -> None:
        """No timer is left; what waits is cancelled."""
        for timer in (*self._plans, *([self._timer] if self._timer else [])):
            timer.cancel()
        for _, future in self._waiting.values():
            future.cancel()

    # time

    def now(self) -> int:
        """Nanoseconds on the server's own clock, which stands still in a stall."""
        now = round(self._loop.time() * NANO)
        if self._stalled_until is not None:
            if now < self._stalled_until:
                return self._last
            self._lost += self._stalled_until - self._last - self._lost
            self._stalled_until = None
        self._last = now - self._lost
        return self._last

    def _standing_still(self) -> bool:
        return self._stalled_until is not None and round(self._loop.time() * NANO) < self._stalled_until

    def _arm(self) -> None:
        """Come back when the pass under way ends. A server that has died is started again in its time."""
        if not self.server.alive and not self._down:
            self._down = True
            if self._restart is not None:
                self._loop.call_later(self._restart, self.revive)
        due = self.server.due()
        when = None if due is None else (due + self._lost) / NANO
        if self._standing_still() and self._stalled_until is not None:
            when = self._stalled_until / NANO
        if self._timer is not None:
            if when is not None and self._timer.when() == when and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = None if when is None else self._loop.call_at(when, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.server.advance(self.now())
        self._arm()

    def _ended(self, sequence: Sequence) -> None:
        _, future = self._waiting.get(sequence.tag, (None, None))
        if future is not None and not future.done():
            future.set_result(sequence)

    def _refuses(self, kind: Kind) -> bool:
        until, count = self._refusing.get(kind, (0.0, 0))
        if self._loop.time() >= until or count <= 0:
            self._refusing.pop(kind, None)
            return False
        self._refusing[kind] = (until, count - 1)
        self.struck[kind] += 1
        return True
