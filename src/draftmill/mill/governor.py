"""How many requests one server gets at once: a control law over what the server says of itself. No clock, no I/O.

A server that is short of memory shows it in three ways, and each has its answer: requests wait in its queue (send no
more than a few that wait), its KV cache is nearly full (send none until it is not), requests are thrown back to be
computed again (at once fewer, and keep more of the cache free from then on). One that is short of arithmetic shows
only that more at once generate no faster.
"""

from math import ceil, exp, inf, log2

import msgspec

MOST = 2048  # at once at one server, whatever its figures say: a client of 4,000 has been tried, servers have ends
START = 64  # at the start at most: prefills of hundreds at once have ended servers that hold hundreds well
_FULL = 0.9  # of the KV cache: with more of it in use, or expected to be, the cap does not grow
_LOST = 0.011  # of the tokens may be computed again: so fast does the ceiling rise where nothing is thrown back
_COST = 0.5  # of the tokens that a request holds on average are lost with one thrown back: the youngest go
_CUT = 0.04  # of the requests: what a retraction takes away, at least, and what the ceiling wins back at a time
_MOST_CUT = 0.25
_STEP = 1.25  # the most that the cap grows by at once
_SLOW = 1.05  # the same above what the forecast says the cache holds
_WAIT = 0.1  # of the running requests should wait in the server's queue on average, so that it is seldom empty
_LONG = 0.18  # on average are too many, and at any time so many:
_TOO_LONG = 0.8
_FEW = 3  # are never too many
_NEAR = 0.8  # of a cap that was too high once: from there on by small steps
_PAUSE = 4.0  # seconds between two steps up
_SETTLE = 20.0  # the same where the generation rate has to tell first what the last one brought
_AVERAGED = 200.0  # seconds at most that averages reach back
_HOLD = 30.0  # seconds in which a cut works: until then no second one, and no step up
_GAIN = 0.025  # where 1 % more requests bring less than 0.025 % more tokens a second, there are enough


class Signals(msgspec.Struct, frozen=True):
    """What is known of a server ``seconds`` after the signals before; None where it does not say.

    ``binds``: more would be sent if the cap let it. ``draining``: nothing is left to be sent, so that low figures say
    nothing. ``held``: tokens that a request is expected to hold of the KV cache, on average over its life: its prompt
    and E[L²]/2E[L] of its answer. ``preempted``: requests that were thrown back since.
    """

    seconds: float
    running: int
    queued: int
    in_flight: int
    binds: bool
    held: float
    draining: bool = False
    kv_used: int | None = None
    kv_total: int | None = None
    preempted: int = 0
    rate: float | None = None


class Decision(msgspec.Struct, frozen=True):
    """``reason`` is empty where the cap stays."""

    cap: int
    reason: str = ""


class Speeds:
    """Step times seen at different loads, as a line: ``base + each · running`` seconds for one token of everybody."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[float, float, int]] = {}  # by half octave of the load: load, step, how often

    def note(self, running: int, rate: float) -> None:
        key = round(2 * log2(running))
        load, step, count = self._seen.get(key, (0.0, 0.0, 0))
        share = max(0.1, 1 / (count + 1))
        self._seen[key] = (load + share * (running - load), step + share * (running / rate - step), count + 1)

    def enough(self) -> float:
        """The load from which on more of it gains next to nothing; infinite where that is not known."""
        seen = [(load, step) for load, step, count in self._seen.values() if count >= 2]
        if len(seen) < 2 or max(seen)[0] < 1.5 * min(seen)[0]:
            return inf
        # least squares of the relative error: rates are off by a share of themselves
        weights = [1 / step**2 for _, step in seen]
        middle = sum(w * load for w, (load, _) in zip(weights, seen, strict=True)) / sum(weights)
        mean = sum(w * step for w, (_, step) in zip(weights, seen, strict=True)) / sum(weights)
        spread = sum(w * (load - middle) ** 2 for w, (load, _) in zip(weights, seen, strict=True))
        cross = sum(w * (load - middle) * (step - mean) for w, (load, step) in zip(weights, seen, strict=True))
        each = cross / spread
        base = mean - each * middle
        if each <= 0:
            return inf
        # the rate n / (base + each·n) grows by base / (base + each·n) per cent where n grows by one
        return max(min(seen)[0], base / each * (1 - _GAIN) / _GAIN)


class Governor:
    """The cap of one server. ``slots``: what it runs at once at most; ``kv_tokens``: the size of its KV cache."""

    def __init__(self, slots: int | None = None, kv_tokens: int | None = None) -> None:
        self.most = min(slots or MOST, MOST)
        self.cap = min(self.most, START)
        self._slots = slots
        self._kv_tokens = kv_tokens
        self._speeds = Speeds()
        self._ceiling = inf  # where requests were thrown back; rises again by what may be lost
        self._filled = inf  # where too many waited in the queue: from there on by small steps
        self._since = inf  # seconds since the last step up
        self._calm = inf  # seconds since the last cut
        self._hold = _HOLD
        self._running = 0.0  # averages over the time in which a request comes to hold what it will
        self._queued = 0.0

    @property
    def by_slots(self) -> bool:
        """Whether the server's slots alone decide: it has slots, and no figures of a KV cache."""
        return self._slots is not None and self._kv_tokens is None

    def start(self, held: float) -> Decision:
        """The first cap, for requests that are expected to hold so many tokens each."""
        if self.by_slots:
            return self._to(self.most, f"the server has {self._slots} slots")
        if self._kv_tokens is None:
            return Decision(self.cap)
        fits = int(self._kv_tokens * _FULL / held)
        return self._to(min(START, fits), f"{self._kv_tokens} tokens of KV cache, {held:.0f} expected a request")

    def decide(self, s: Signals) -> Decision:
        """What the cap shall be from now on."""
        if s.draining:
            return Decision(self.cap)
        self._since += s.seconds
        self._calm += s.seconds
        life = s.held * s.running / s.rate if s.rate else inf  # seconds in which a request comes to hold that
        self._hold = min(_HOLD, max(_PAUSE, life / 4))
        if s.preempted and s.running:
            return self._cut(s)
        total = s.kv_total or self._kv_tokens
        used = None if s.kv_used is None or not total else s.kv_used / total
        self._ceiling *= 1 + _CUT * s.seconds * (s.rate or 0.0) * _LOST / (_COST * s.held)
        if s.rate and s.running and s.running >= 0.8 * s.in_flight and self._since >= 0.6 * _SETTLE:
            self._speeds.note(s.running, s.rate)
        new = 1 - exp(-s.seconds / min(_AVERAGED, max(_HOLD, life)))
        self._running += new * (s.running - self._running)
        self._queued += new * (s.queued - self._queued)
        if s.running and self._calm >= self._hold:
            if s.queued > max(_FEW, _TOO_LONG * s.running):
                return self._shorten(s, max(s.running + ceil(_WAIT * s.running), int(0.8 * self.cap)))
            if self._queued > max(1.0, _LONG * self._running) and min(self._calm, self._since) >= 2 * self._hold:
                return self._shorten(s, max(round(self._running * (1 + _WAIT)), int(0.8 * self.cap)))
        if not s.binds or self._calm < self._hold or (used or 0.0) > _FULL:
            return Decision(self.cap)
        return self._grow(s, used, total, life)

    def _shorten(self, s: Signals, cap: int) -> Decision:
        self._calm = 0.0
        self._filled = self.cap
        self._queued = min(self._queued, _WAIT * self._running)
        return self._down(cap, f"{s.queued} wait in the server's queue, {s.running} run")

    def _cut(self, s: Signals) -> Decision:
        if self._calm < self._hold and self._ceiling < inf:
            return Decision(self.cap)
        self._calm = 0.0
        share = min(_MOST_CUT, max(_CUT, s.preempted / (s.running + s.preempted)))
        self._ceiling = max(1.0, min(self._ceiling, self.cap) * (1 - share))
        cap = min(self.cap - 1, int(self._ceiling), max(s.running + s.preempted, int(0.9 * self.cap)))
        return self._down(cap, f"{s.preempted} thrown back for want of KV cache")

    def _grow(self, s: Signals, used: float | None, total: int | None, life: float) -> Decision:
        fits = inf if total is None or used is None else total * _FULL / s.held
        bound = min(self.most, self._speeds.enough(), self._ceiling)
        if self.cap + 1 > bound:
            return Decision(self.cap)
        if self.cap < fits:
            pause = _PAUSE if used is not None and self.cap < START else _SETTLE
            target = min(self.cap * _STEP, fits)
        else:  # not before the requests of the last step hold what they will
            pause = max(_HOLD, life)
            target = self.cap * _SLOW
        near = self.cap >= _NEAR * min(self._filled, self._ceiling)
        if near:
            pause, target = 2 * self._hold, self.cap + 1 + int(_WAIT / 4 * self.cap)
        if self._since < pause or (self._queued if near else s.queued) > 0.6 * _WAIT * s.running:
            return Decision(self.cap)
        self._since = 0.0
        target = int(min(max(ceil(target), self.cap + 1), bound))
        why = f"only {s.queued} wait in the server's queue" if s.queued else "no request waits in the server's queue"
        return self._to(target, why if used is None else f"{why}, {used:.0%} of its KV cache is in use")

    def _down(self, cap: int, reason: str) -> Decision:
        return self._to(min(self.cap, cap), reason)

    def _to(self, cap: int, reason: str) -> Decision:
        cap = max(1, min(cap, self.most))
        changed, self.cap = cap != self.cap, cap
        return Decision(cap, reason if changed else "")
