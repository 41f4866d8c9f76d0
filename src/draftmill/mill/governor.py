"""How many requests one server gets at once: a control law over what the server says of itself. No clock, no I/O.

Two numbers. The *ceiling* is worked out at every look at the server and holds until the next: no more than a few may
wait in its queue, and what is in flight must be expected to fit into its KV cache until it has ended, with a margin for
chance; requests that are thrown back to be computed again widen the margin, tokens generated without that narrow it.
Between two looks each answer that ends is replaced unseen, so that a server whose answers are short is looked at more
often. The *cap* is slow and bounds the ceiling: it grows until more at once generate no faster, since a server that is
short of arithmetic has no other sign.
"""

from math import inf, log2

import msgspec

from draftmill.mill.growth import Growth

MOST = 2048  # at once at one server, whatever its figures say: a client of 4,000 has been tried, servers have ends
START = 64  # at the start at most: prefills of hundreds at once have ended servers that hold hundreds well
_WAIT = 0.1  # of the running requests may wait in the server's queue, so that it is seldom empty
_FEW = 1  # may wait anyway
_SHORT = 2  # waiting: a queue that does not keep the cap from growing
LOOK, _SOONEST = 2.0, 0.5  # seconds from one look to the next at most, and at least
_TURN = 1 / 32  # of what runs may end until then: if the server admits nobody in that time, so many more wait there
_MARGIN = 2.25  # standard deviations of what the cache will hold are kept free at first,
_LEAST, _WIDEST = 2.0, 4.0  # at least and at most
_WIDER = 1.0  # standard deviations more where all that runs is thrown back, and in proportion
_BACK = 0.011  # of what runs may be thrown back for each cacheful of tokens generated: under 1 % is computed again
_STEP = 1.25  # the most that the cap grows by at once
_SETTLE = 20.0  # seconds between two steps up: the generation rate has to tell first what the last one brought
_CUT = 0.9  # of the cap stays where requests are thrown back by a server that shows no KV cache
_GAIN = 0.025  # where 1 % more requests bring less than 0.025 % more tokens a second, there are enough


class Signals(msgspec.Struct, frozen=True):
    """What is known of a server ``seconds`` after the signals before; None where it does not say.

    ``binds``: more would be sent if the cap let it. ``draining``: nothing is left to be sent, so that low figures say
    nothing. ``growth``: what is in flight there and what would be sent next. ``preempted``: requests that were thrown
    back since.
    """

    seconds: float
    running: int
    queued: int
    in_flight: int
    binds: bool
    growth: Growth
    draining: bool = False
    kv_used: int | None = None
    kv_total: int | None = None
    preempted: int = 0
    rate: float | None = None


class Decision(msgspec.Struct, frozen=True):
    """``ceiling``: the most that may be in flight until the next look, in ``look`` seconds; ``bound``: what keeps it
    there. ``reason``: what there is to be told, or ""."""

    cap: int
    ceiling: int
    reason: str = ""
    look: float = LOOK
    bound: str = ""


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
        self.margin = _MARGIN
        self._slots = slots
        self._kv_tokens = kv_tokens
        self._speeds = Speeds()
        self._since = inf  # seconds since the last change of the cap
        self._cut = False

    @property
    def by_slots(self) -> bool:
        """Whether the server's slots alone decide: it has slots, and no figures of a KV cache."""
        return self._slots is not None and self._kv_tokens is None

    def start(self, growth: Growth) -> Decision:
        """The first cap, and the first ceiling, while nothing is in flight."""
        if self.by_slots:
            self.cap = self.most
            return Decision(self.cap, self.cap, f"the server has {self._slots} slots")
        if self._kv_tokens is None:
            return Decision(self.cap, self.cap)
        room = min(self.cap, max(1, growth.room(self._kv_tokens, self.margin)))
        return Decision(self.cap, room, f"room at the start in {self._kv_tokens} tokens of KV cache")

    def decide(self, s: Signals) -> Decision:
        """What cap and ceiling shall be from now on."""
        total = s.kv_total or self._kv_tokens
        free = None if total is None or s.kv_used is None else total - s.kv_used
        reason = ""
        if not s.draining:
            self._since += s.seconds
            reason = self._learn(s, free) or self._grow(s)
        ceiling, bound = self._ceiling(s, free)
        return Decision(self.cap, ceiling, reason, _look(s), "" if s.draining else bound)

    def _ceiling(self, s: Signals, free: int | None) -> tuple[int, str]:
        """The most in flight, and what bounds it."""
        bounds = [(self.cap, "more at once would generate no faster, as far as is known")]
        if s.in_flight:
            few = max(_FEW, int(_WAIT * s.running))
            bounds.append((s.in_flight + few - s.queued, f"{s.queued} wait in its queue, where {few} may"))
        if free is not None:
            room = s.growth.room(free, self.margin)
            bounds.append((s.in_flight + room, "what its KV cache has room for until they have ended"))
        ceiling, bound = min(bounds)
        return max(1, ceiling), bound

    def _learn(self, s: Signals, free: int | None) -> str:
        """Take in what was thrown back. Returns what is worth telling."""
        if free is not None:
            back = s.preempted / max(1, s.running)
            cachefuls = s.seconds * (s.rate or 0.0) / max(1, s.kv_used or 0)
            self.margin = min(_WIDEST, max(_LEAST, self.margin + _WIDER * (back - _BACK * cachefuls)))
        elif s.preempted and self._since >= _SETTLE:
            self._since, self._cut = 0.0, True
            self.cap = max(1, min(self.cap, int(_CUT * s.in_flight)))
        return f"{s.preempted} thrown back for want of KV cache" if s.preempted else ""

    def _grow(self, s: Signals) -> str:
        if s.rate and s.running and s.running >= 0.8 * s.in_flight and self._since >= 0.6 * _SETTLE:
            self._speeds.note(s.running, s.rate)
        bound = min(self.most, self._speeds.enough())
        if not s.binds or self._since < _SETTLE or s.queued > _SHORT or self.cap + 1 > bound:
            return ""
        self._since = 0.0
        self.cap = self.cap + 1 if self._cut else int(min(max(self.cap * _STEP, self.cap + 1), bound))
        return "no request waits in the server's queue" if not s.queued else f"only {s.queued} wait in its queue"


def _look(s: Signals) -> float:
    """Seconds until the next look: by how long it takes until all that runs has ended."""
    if s.draining or not s.rate:
        return LOOK
    return min(LOOK, max(_SOONEST, _TURN * s.running * s.growth.expected() / s.rate))
