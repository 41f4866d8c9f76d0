"""The scheduler of a simulated SGLang server: no I/O and no clock, moved forward by whoever owns the time.

Time is whole nanoseconds, so that many decode steps at once end at the very instant at which they end one by one. The
server works in passes, each a prefill of up to one chunk or a number of equal decode steps. A decode pass reaches to
the next thing that can change it: an answer's end, a full pool, a request that may be admitted, an abort.
"""

import itertools
from collections import deque
from collections.abc import Callable

import msgspec

from draftmill.engines.protocol import Load
from draftmill.engines.simulated import admission
from draftmill.engines.simulated.admission import Take
from draftmill.engines.simulated.answers import Answers
from draftmill.engines.simulated.passes import NANO, RATE_STEPS, Counters, Pass, Rate
from draftmill.engines.simulated.pool import Pool
from draftmill.engines.simulated.sequence import Outcome, Sequence
from draftmill.engines.simulated.spec import ServerSpec


class QueueFull(Exception):
    """The waiting queue holds as many as it may."""


class Server:
    """``on_end(sequence)`` hears of every sequence that leaves. ``jump`` bounds the steps of a decode pass; 1 is what a
    real server does, and gives the same numbers."""

    def __init__(
        self, spec: ServerSpec, answers: Answers, on_end: Callable[[Sequence], None], jump: int = 1 << 60
    ) -> None:
        self.spec = spec
        self.answers = answers
        self.counters = Counters()
        self.running: list[Sequence] = []
        self.queue: deque[Sequence] = deque()
        self.pool = Pool(spec.kv_tokens, spec.prefix_cache)
        self.alive = True
        self._on_end = on_end
        self._jump = jump
        self._chunked: Sequence | None = None
        self._full = False
        self._ratio = (admission.RATIO, 0)  # as it was after so many steps
        self._pass: Pass | None = None
        self._rate = Rate()
        self._numbers = itertools.count()  # of the requests; a restart goes on counting

    # from outside

    def submit(self, tag: str, prompt_ids: list[int], limit: int, now: int, seed: int | None = None) -> Sequence:
        """Take in a request. Raises QueueFull."""
        self.advance(now)
        if self.spec.max_queued is not None and len(self.queue) >= self.spec.max_queued:
            self.counters.refused += 1
            raise QueueFull
        limit = min(limit, self.spec.max_prompt + 4 - len(prompt_ids))  # without a word, as SGLang
        answer = self.answers.of(prompt_ids, seed, tag, next(self._numbers))
        total = min(limit, answer.length - answer.done)
        sequence = Sequence(tag, prompt_ids, answer, limit, total, now)
        self.counters.requests += 1
        self.counters.prompt_tokens += len(prompt_ids)
        self.queue.append(sequence)
        if self._pass is None:
            self._plan(now)
        elif not self._full:
            self._cut(now)
        return sequence

    def abort(self, sequence: Sequence, now: int) -> None:
        """Let a request go. One that runs leaves at the end of the step under way, with what it has by then."""
        self.advance(now)
        if sequence.outcome is not None:
            return
        sequence.aborting = True
        if sequence in self.queue:
            self.queue.remove(sequence)
            self._end(sequence, Outcome.ABORTED, now)
        else:
            self._cut(now)

    def die(self, now: int) -> None:
        """Lose everything."""
        self.advance(now)
        self._die(now)

    def revive(self, now: int) -> None:
        """Start again, empty."""
        self.alive, self.counters, self._rate = True, Counters(), Rate(now)
        self._ratio = (admission.RATIO, 0)

    def due(self) -> int | None:
        """When the pass under way ends, if nothing comes in between."""
        return self._pass.end if self._pass else None

    def advance(self, now: int) -> None:
        """Let time pass."""
        while self._pass is not None and self._pass.end <= now:
            ended, self._pass = self._pass, None
            self._finish(ended)
            self._plan(ended.end)

    # what it shows

    @property
    def ratio(self) -> float:
        """The share of its reservation that a running sequence is believed to use."""
        ratio, steps = self._ratio
        return admission.decayed(ratio, self.counters.steps - steps)

    def generated(self, sequence: Sequence, now: int) -> int:
        """How many ids a sequence has at a time that is not before the last ``advance``."""
        decodes = sequence.first_token is not None and sequence.held == sequence.fill - 1
        return sequence.generated + (self._pass.done(now) if self._pass and decodes else 0)

    def load(self, now: int) -> Load:
        """SGLang's signals. Sequences in a prefill pass count as running."""
        steps = self._pass.done(now) if self._pass else 0
        rate = self._rate.value if self.running or self.queue else 0.0
        if self._pass and steps >= RATE_STEPS:
            rate = len(self.running) * NANO / self._pass.unit
        return Load(
            running=len(self.running) + (len(self._pass.takes) if self._pass else 0),
            queued=len(self.queue),
            kv_used=self.pool.held + steps * len(self.running),
            kv_total=self.spec.kv_tokens,
            generation_rate=rate,
            preemptions=self.counters.retractions,
        )

    def counted(self, now: int) -> Counters:
        """The counters with the steps of the pass under way."""
        steps = self._pass.done(now) if self._pass else 0
        counters = self.counters
        generated = counters.generated + steps * len(self.running)
        return msgspec.structs.replace(counters, generated=generated, steps=counters.steps + steps)

    # passes

    def _plan(self, now: int) -> None:
        """Begin the next pass: a prefill where anybody can be admitted, else decode steps, else nothing."""
        if takes := self._admit(now):
            tokens = sum(take.tokens for take in takes)
            spec = self.spec
            self._pass = Pass(now, max(1, round(tokens * NANO / spec.prefill_rate)), 1, takes)
            if len(takes) > (spec.most_prefills or len(takes)) or tokens > (spec.most_prefill_tokens or tokens):
                self._die(now)
                return
        elif self.running:
            jump = 1 if self._retract(now) else self._jump  # whoever was sent back may be admitted after a step
            room = self.pool.free // len(self.running)
            steps = min(jump, room, min(s.total - s.generated for s in self.running))
            self._pass = Pass(now, max(1, round(self.spec.speed.step(len(self.running)) * NANO)), steps, [])
        else:
            self._ratio = (admission.RATIO, self.counters.steps)
            return
        self.counters.most_running = max(self.counters.most_running, len(self.running) + len(self._pass.takes))

    def _cut(self, now: int) -> None:
        """Let the decode pass under way end with its present step."""
        if self._pass and not self._pass.takes:
            begun = -(-(now - self._pass.start) // self._pass.unit)
            self._pass.steps = min(self._pass.steps, max(1, begun))

    def _finish(self, ended: Pass) -> None:
        counters = self.counters
        counters.passes += 1
        for sequence, tokens, _ in ended.takes:
            if sequence is not self._chunked:
                sequence.held += tokens
                self._generate(sequence, ended.end)
        if self._chunked and ended.takes:
            self._chunked.held += next(take.tokens for take in ended.takes if take.sequence is self._chunked)
        if not ended.takes:
            steps = ended.steps
            for sequence in self.running:
                sequence.generated += steps
                sequence.held += steps
            self.pool.take(steps * len(self.running))
            counters.generated += steps * len(self.running)
            counters.steps += steps
        counters.most_held = max(counters.most_held, self.pool.held)
        before = len(self.running)
        for sequence in self.running:
            if sequence.generated == sequence.total:
                whole = sequence.answer.done + sequence.total == sequence.answer.length
                self._end(sequence, Outcome.STOP if whole else Outcome.LENGTH, ended.end)
            elif sequence.aborting:
                self._end(sequence, Outcome.ABORTED, ended.end)
        if self._chunked is not None and self._chunked.aborting:
            self._end(self._chunked, Outcome.ABORTED, ended.end)
            self._chunked, self._full = None, False
        self.running = [s for s in self.running if s.outcome is None]
        self._full = self._full and len(self.running) == before
        self._rate.look(ended.end, counters)

    def _generate(self, sequence: Sequence, now: int) -> None:
        """A prefill gives the first id."""
        sequence.generated += 1
        sequence.first_token = sequence.first_token or now
        self.counters.generated += 1
        self.running.append(sequence)

    # admission, retraction, ends

    def _admit(self, now: int) -> list[Take]:
        if not self.queue and self._chunked is None:
            return []
        if self._full and self._chunked is None and self.running:
            return []
        takes, self._full = admission.admit(
            self.queue,
            self.running,
            self._chunked,
            free=self.pool.free,
            ratio=self.ratio,
            chunk=self.spec.chunk,
            max_running=self.spec.max_running,
            hit=self.pool.hit,
        )
        for sequence, tokens, hit in takes:
            if sequence is not self._chunked:
                self.queue.popleft()
            sequence.admitted = now
            sequence.held += hit
            sequence.cached += hit
            self.pool.take(tokens + hit)
            self.counters.prefilled += tokens
            self.counters.cached += hit
            self.counters.recomputed += tokens if sequence.retractions else 0
        last = takes[-1].sequence if takes else None
        self._chunked = last if last and last.held + takes[-1].tokens < last.fill else None
        return takes

    def _retract(self, now: int) -> bool:
        """Where the next step does not fit into the pool: send back those who lose least, until it does."""
        if self.pool.free >= len(self.running):
            return False
        keep = admission.retraction_order(self.running)
        while len(keep) > 1:
            sequence, keep = keep[0], keep[1:]
            self.pool.release(sequence, keep=False)
            sequence.retractions += 1
            self.counters.retractions += 1
            if self.spec.max_queued is not None and len(self.queue) >= self.spec.max_queued:
                self._end(sequence, Outcome.REFUSED, now)
            else:
                self.queue.append(sequence)
            if self.pool.free >= len(keep):
                break
        kept = set(map(id, keep))
        self.running = [s for s in self.running if id(s) in kept]
        self._ratio = (admission.ratio_after_retraction(self.running), self.counters.steps)
        self._full = False
        return True

    def _end(self, sequence: Sequence, outcome: Outcome, now: int) -> None:
        self.pool.release(sequence, keep=True)
        sequence.outcome, sequence.ended = outcome, now
        if outcome in (Outcome.REFUSED, Outcome.LOST):
            self.counters.dropped += sequence.generated
        else:
            self.counters.delivered += sequence.generated
        self.counters.aborted += outcome is Outcome.ABORTED
        self._on_end(sequence)

    def _die(self, now: int) -> None:
        under_way = {id(take.sequence): take.sequence for take in self._pass.takes} if self._pass else {}
        under_way |= {id(s): s for s in (*self.running, *self.queue, *([self._chunked] if self._chunked else []))}
        self._pass = self._chunked = None
        self.running, self.alive, self._full = [], False, False
        self.queue.clear()
        self.counters.deaths += 1
        for sequence in under_way.values():
            self._end(sequence, Outcome.LOST, now)
        self.pool = Pool(self.spec.kv_tokens, self.spec.prefix_cache)
