"""One engine's seat in the run: whether it may be given work, and how much at once."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

import msgspec

from draftmill.engines.protocol import Engine, Identity, Load, Request
from draftmill.errors import CapacityFault, EngineError, SetupFault, TransportFault
from draftmill.ledger.told import FAILING, OTHER
from draftmill.mill import clock
from draftmill.mill.governor import LOOK, Decision, Governor, Signals
from draftmill.mill.growth import Growth
from draftmill.mill.mishaps import Mishaps
from draftmill.mill.progress import Progress
from draftmill.recipe import Concurrency, EngineSpec

_PROBE_EVERY = (0.2, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds between probes of a lost engine; the last one repeats
_FAILURES = 8  # calls in a row without one answer: after that one call at a time is enough to ask again
_TRIAL_SECONDS = 60.0  # that a server which stood still gets for one token, before it is asked again
_REFUSAL_PAUSE = 1.0  # seconds in which a full server gets nothing new
# What the governor lets be in flight moves at every look: it is told where it is so far from what was told last
_FAR, _SELDOM = 0.25, 60.0  # as a share; in seconds


class State(Enum):
    OPEN = "open"
    DOUBTED = "doubted"  # a call failed in transport; a probe decides
    LOST = "lost"  # the probe failed too; probed until it answers
    PAUSED = "paused"  # refused by set-up (key, path, sampling key); the person has to act
    LEAVING = "leaving"  # taken out of the run


class Seat:
    """An engine and what may be sent to it. ``tell(kind, engine, message)`` hears every change.

    ``governor`` finds the cap; None where the recipe fixes it.
    """

    def __init__(
        self, engine: Engine, spec: EngineSpec, identity: Identity, tell: Callable[[str, str, str], None]
    ) -> None:
        self.engine = engine
        self.identity = identity
        self.own_stops: tuple[int, ...] = ()
        self.recognise: Callable[[Engine], Awaitable[str]] | None = None  # says how one that was away differs
        self.progress = Progress()
        self.governor, self.cap = _governed(spec.concurrency, identity)
        self.state = State.OPEN
        self.why = ""
        self.in_flight = 0
        self.ever_answered = False
        self.failures = 0  # calls in a row that failed in transport although the engine answers its probes
        self.last_fault = ""
        self._ceiling = float(self.cap)
        self._governed = self.cap  # the governor's ceiling until its next look
        self.look = LOOK  # in so many seconds
        self._full_until = 0.0
        self._sampled: tuple[float, int] | None = None  # when, and the server's count of preemptions then
        self._told = (0.0, self.cap)  # when, and what was told of how many at once
        self._tell = tell
        self._mishaps = Mishaps(tell)
        self._probing: asyncio.Task[None] | None = None
        self._trial: Request | None = None  # what a server that stood still must generate before it is believed

    @property
    def most(self) -> int:
        """The most requests that it may ever be given at once."""
        return self.governor.most if self.governor else self.cap

    @property
    def free(self) -> int:
        """How many more requests it may be given now."""
        if self.state is not State.OPEN or (self._full_until and clock.now() < self._full_until):
            return 0
        return max(0, (1 if self.failures >= _FAILURES else self.ceiling) - self.in_flight)

    @property
    def ceiling(self) -> int:
        """The most that may be in flight just now."""
        return min(int(self._ceiling), self._governed) if self.governor else int(self._ceiling)

    def filled(self) -> float:
        """Which share of what may be in flight is."""
        return self.in_flight / self.ceiling

    def room(self, prompt_tokens: int) -> int:
        """The most tokens that it could generate behind a prompt of this length; 0 where the prompt does not fit."""
        identity = self.identity
        if identity.max_prompt is not None and prompt_tokens > identity.max_prompt:
            return 0
        return 1 << 31 if identity.context is None else max(0, identity.context - prompt_tokens)

    def begin(self, growth: Growth) -> None:
        """The run begins, with nothing in flight."""
        if self.governor and not self.ever_answered:
            self._follow(self.governor.start(growth))

    def retune(self, concurrency: Concurrency) -> None:
        """Another concurrency than before; what it has in flight stays."""
        self.governor, self.cap = _governed(concurrency, self.identity)
        self._ceiling, self._governed = float(self.cap), self.cap
        self._tell("cap", self.engine.name, f"{self.cap} at once{': to begin with' if self.governor else ''}, as told")

    def govern(self, load: Load, growth: Growth, draining: bool) -> None:
        """What the server does just now, for its governor."""
        now, count = clock.now(), load.preemptions or 0
        before, self._sampled = self._sampled, (now, count)
        if self.governor is None or self.state is not State.OPEN:
            return
        signals = Signals(
            seconds=now - before[0] if before else 0.0,
            running=load.running,
            queued=load.queued,
            in_flight=self.in_flight,
            binds=self.in_flight >= self.cap and self._ceiling >= self.cap,
            growth=growth,
            draining=draining,
            kv_used=load.kv_used,
            kv_total=load.kv_total,
            preempted=max(0, count - before[1]) if before else 0,
            rate=load.generation_rate,
        )
        self._follow(self.governor.decide(signals))

    def _follow(self, decision: Decision) -> None:
        refused = self._ceiling < self.cap  # then it rises by the answers that come, as before
        self.cap, self._governed, self.look = decision.cap, decision.ceiling, decision.look
        self._ceiling = min(self._ceiling, self.cap) if refused else float(self.cap)
        now, (then, before) = clock.now(), self._told
        moved = not refused and now - then >= _SELDOM and abs(self.ceiling - before) > _FAR * before
        if why := decision.reason or (moved and decision.bound):
            self._told = now, self.ceiling
            self._tell("cap", self.engine.name, f"{self.ceiling} at once: {why}")

    def answered(self) -> None:
        """A good reply: after a refusal the ceiling rises again, by one for each round of answers."""
        self.ever_answered = True
        self.failures = 0
        self.progress.heard(clock.now())
        if self._ceiling < self.cap:
            self._ceiling = min(self.cap, self._ceiling + 1 / max(1.0, self._ceiling))

    def refused(self, fault: CapacityFault) -> None:
        """The server is full: fewer at once, and nothing new for a moment. No prompt is to blame."""
        if clock.now() >= self._full_until:
            self.last_fault = fault.message
            before, self._ceiling = self._ceiling, max(1.0, 0.8 * min(self._ceiling, self.in_flight + 1))
            if int(before) != int(self._ceiling):
                self._tell("cap", self.engine.name, f"at most {int(self._ceiling)} at once: {fault.message}")
        self._full_until = clock.now() + _REFUSAL_PAUSE

    def pause(self, fault: SetupFault, wake: Callable[[], None]) -> None:
        """The set-up refuses us. Probed rarely, since only a person can mend it."""
        self.last_fault = fault.message
        self._close(State.PAUSED, fault.message, wake, _PROBE_EVERY[-1:])

    def doubt(self, fault: EngineError, wake: Callable[[], None]) -> None:
        """A call failed in transport: nothing new until a probe says that the engine lives.

        One that lives and still fails call after call is paused: its prompts are not to blame.
        """
        self.last_fault = fault.message
        self.failures += self.state is State.OPEN
        if self.failures >= _FAILURES:
            why = f"{self.failures} {FAILING}, the last: {fault.message}"
            self._close(State.PAUSED, why, wake, _PROBE_EVERY[-2:])
        else:
            self._close(State.DOUBTED, fault.message, wake, _PROBE_EVERY)

    def stall(self, seconds: float, request: Request, wake: Callable[[], None]) -> TransportFault:
        """It has made no progress for so long: nothing new until it generates a token for ``request``, since its
        health calls say nothing. Returns what its calls end with."""
        what = f"no progress for {seconds:.0f} s with {self.in_flight} requests there"
        fault = TransportFault(f"{self.engine.name}: {what}")
        self.last_fault = fault.message
        self._trial = msgspec.structs.replace(request, limit=1, tag=f"{request.tag}-trial")
        self._tell("stalled", self.engine.name, what)
        self._close(State.LOST, fault.message, wake, _PROBE_EVERY)
        return fault

    def leave(self) -> None:
        """Nothing new ever again."""
        self.state, self.why = State.LEAVING, "taken out"
        if self._probing:
            self._probing.cancel()

    async def close(self) -> None:
        if self._probing:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self.engine.close()

    def _close(self, state: State, why: str, wake: Callable[[], None], pauses: tuple[float, ...]) -> None:
        if self.state is not State.OPEN:
            return
        self.state, self.why = state, why
        if state is State.PAUSED:
            self._tell("paused", self.engine.name, why)
        self._probing = asyncio.create_task(self._probe(wake, pauses))

    async def _probe(self, wake: Callable[[], None], pauses: tuple[float, ...]) -> None:
        tries = 0
        while True:
            await asyncio.sleep(pauses[min(tries, len(pauses) - 1)])
            tries += 1
            try:
                identity = await self.engine.identify()
                await self._try()
                differs = mismatch(self.identity, identity) or await self._unlike_before()
            except EngineError as error:
                if self.state is State.DOUBTED:
                    self.state, self.why = State.LOST, error.message
                    self._tell("lost", self.engine.name, error.message)
                    wake()
                continue
            except Exception as error:
                self._mishaps.hear(self.engine.name, "could not be probed", error)
                continue
            if differs:
                if self.state is not State.PAUSED:
                    self.state, self.why = State.PAUSED, f"{OTHER}: {differs}"
                    self._tell("paused", self.engine.name, self.why)
                continue
            if self.state is not State.DOUBTED:
                self._tell("back", self.engine.name, "answers again")
            self.state, self.identity, self.progress = State.OPEN, identity, Progress()
            wake()
            return

    async def _try(self) -> None:
        if self._trial is None:
            return
        try:
            await asyncio.wait_for(self.engine.generate(self._trial), _TRIAL_SECONDS)
        except TimeoutError:
            raise TransportFault(f"{self.engine.name}: no token within {_TRIAL_SECONDS:.0f} s") from None
        self._trial = None

    async def _unlike_before(self) -> str:
        """What its weights say, where it was away: behind the same URL it may have come back with others."""
        if self.recognise is None or self.state is State.DOUBTED:
            return ""
        return await self.recognise(self.engine)


def _governed(concurrency: Concurrency, identity: Identity) -> tuple[Governor | None, int]:
    """The governor of a concurrency that is ``auto``, and the cap to begin with."""
    if concurrency != "auto":
        return None, int(concurrency)
    own_caches = identity.kind == "llamacpp"  # each slot has its context to itself: slots decide, nothing else
    governor = Governor(identity.slots, None if own_caches else identity.kv_tokens)
    return governor, governor.cap


def mismatch(one: Identity, other: Identity) -> str:
    """How two servers differ in what must be equal within one run, or "". A value that a server hides fits any.

    Servers of two kinds name models, weights and dtypes each in its own words, so only their vocabularies compare; a
    model is compared by its last path component, since two machines may keep it in two places.
    """
    pairs: list[tuple[str, object, object]] = [("vocabulary", one.vocab_size, other.vocab_size)]
    if one.kind == other.kind:
        pairs.append(("model", _last(one.model), _last(other.model)))
        pairs.append(("weights", one.weights, other.weights))
        pairs.append(("KV dtype", one.kv_dtype, other.kv_dtype))
    for what, a, b in pairs:
        if a is not None and b is not None and a != b:
            return f"{what} {a!r} and {b!r}"
    return ""


def _last(path: str | None) -> str | None:
    return path.rstrip("/").rpartition("/")[2] if path else None
