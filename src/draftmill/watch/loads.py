"""``load.jsonl`` as it grows: what the engines were doing, and what the run had done, over time."""

from collections import deque
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec
import numpy as np

from draftmill.watch.events import Events
from draftmill.watch.figures import EngineFigures, Unread
from draftmill.watch.tail import Tail

_RECENT = 300.0  # seconds of an engine's samples that are kept whole
_MINUTE = 60.0
_FIT = 600  # samples that the speed of a step is fitted to
_STEADY = 0.2  # of what runs, by which it may have changed since the sample before
_SPREAD = 1.3  # between the lightest and the heaviest load: below, a line through them says nothing
_POINTS = 1500  # of the timeline at most: then every second one is dropped
_OLD, _LATE, _LOOKS = 12.0, 2.2, 30  # seconds, usual steps and how many of them: a sample is old by then
_RARE = 25.0  # the same where nobody knows how often they come, every 10 s at most
_STANDS = 10.0  # seconds without work after which nothing is generated: one step of a slow server takes a few
_SHOWN = 60  # points of an engine's history in its figures


class Sample(msgspec.Struct, frozen=True):
    """What an engine said (``engines.protocol.Load``)."""

    running: int
    queued: int
    kv_used: int | None = None
    kv_total: int | None = None
    generation_rate: float | None = None
    preemptions: int | None = None
    work: float | None = None
    share: float | None = None  # of the KV cache in use, where a server says that instead of its size

    @property
    def kv_use(self) -> float | None:
        if self.share is not None:
            return self.share
        return self.kv_used / self.kv_total if self.kv_used is not None and self.kv_total else None


class Done(msgspec.Struct, frozen=True):
    """What a start has done of one dataset (``mill.load.Done``)."""

    answers: int = 0
    failed: int = 0
    tokens: int = 0
    growing: int = 0
    left: int | None = None


class _Line(msgspec.Struct):
    time: float
    engine: str | None = None
    state: str = "open"
    in_flight: int | None = None
    cap: int | None = None
    load: Sample | None = None
    done: dict[str, Done] | None = None


class Point(msgspec.Struct, frozen=True):
    """The run at one moment of its history. ``tokens`` are those of all starts until then, by dataset, those of
    unfinished answers included; the rest is all engines together, None where none said it."""

    time: float
    tokens: dict[str, int]
    running: int
    queued: int
    in_flight: int
    cap: int
    kv_use: float | None
    rate: float | None


class Timeline:
    """The run's history in at most 1,500 points, however long it is: the step doubles when they get too many."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self._every = 1
        self._skipped = 0

    def add(self, point: Point) -> None:
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.points.append(point)
        if len(self.points) >= _POINTS:
            del self.points[1::2]
            self._every *= 2


class EngineLoad:
    """One engine over time."""

    def __init__(self, name: str, source: str = "run") -> None:
        self.name = name
        self.source = source
        self.time = 0.0
        self.state, self.in_flight, self.cap = "open", None, None  # type: tuple[str, int | None, int | None]
        self.last: Sample | None = None
        self.slots: int | None = None
        self._samples: deque[tuple[float, Sample]] = deque()
        self._loads: deque[tuple[int, float]] = deque(maxlen=_FIT)
        self._told = 0.0  # when it last told how much it generated
        self._kept = 0.0  # tokens that it told since, too few to be all
        self._moved = 0.0  # when it was seen to work last
        self._work: float | None = None

    def add(self, time: float, load: Sample | None) -> Sample | None:
        """One sample, None where it did not answer. Returns it as it is to be understood.

        llama.cpp counts an answer's tokens when it ends: while it works and tells of none, or of fewer than it has
        answers under way, its rate is unknown, and what it tells next was generated since it told of enough last.
        """
        before, self.time = self.time, time
        ran = self.last.running if self.last else 0
        if load is None or load.generation_rate is None:
            self._told, self._kept = time, 0.0  # a first look at it, or no answer
        else:
            load = self._understood(load, load.generation_rate * (time - before), time, before)
        self.last = load
        if load is None:
            return None
        self._work = load.work
        self._samples.append((time, load))
        while self._samples[0][0] < time - _RECENT:
            self._samples.popleft()
        steady = abs(load.running - ran) <= _STEADY * load.running + 1  # else the rate is of another load
        if load.running and load.generation_rate and steady:
            self._loads.append((load.running, load.generation_rate))
        return load

    def _understood(self, load: Sample, tokens: float, time: float, before: float) -> Sample:
        """The sample with the rate that is known by it; ``tokens`` are those that were told since the one before."""
        works = load.work is not None and self._work is not None and load.work > self._work
        if works or self._work is None:
            self._moved = time
        stands = load.work is None or not load.running or time - self._moved >= _STANDS
        self._kept += tokens
        if self._kept < max(1, load.running) and (works or not stands):
            return msgspec.structs.replace(load, generation_rate=None)
        if (works or not stands) and before > self._told:
            load = msgspec.structs.replace(load, generation_rate=self._kept / (time - self._told))
        self._told, self._kept = time, 0.0
        return load

    def figures(self, why: str = "", cap_why: str = "") -> EngineFigures:
        load = self.last
        base, each = self._fit()
        late = any(s.generation_rate is None and s.running for _, s in self._samples)  # then idle looks are no rate
        known = [(s, s.generation_rate) for _, s in self._samples if s.generation_rate is not None]
        rates = [rate for s, rate in known if rate or s.running or not late]
        step = max(1, len(self._samples) // _SHOWN)
        return EngineFigures(
            name=self.name,
            source=self.source,
            time=self._samples[-1][0] if self._samples else self.time,
            state=self.state,
            why=why,
            running=load.running if load else None,
            queued=load.queued if load else None,
            in_flight=self.in_flight,
            cap=self.cap,
            cap_why=cap_why,
            slots=self.slots,
            kv_used=load.kv_used if load else None,
            kv_total=load.kv_total if load else None,
            kv_use=load.kv_use if load else None,
            rate=load.generation_rate if load else None,
            mean_rate=sum(rates) / len(rates) if rates else None,
            retracted=load.preemptions if load else None,
            retractions=self._retractions(),
            base=base,
            each=each,
            history=[
                (t, s.running, s.queued, s.kv_use, s.generation_rate) for t, s in list(self._samples)[::-step][::-1]
            ],
        )

    def _retractions(self) -> float | None:
        """Requests thrown back in the last minute; a count that fell began anew with its server."""
        counts = [(t, s.preemptions) for t, s in self._samples if s.preemptions is not None]
        if len(counts) < 2:
            return None
        since = [n for t, n in counts if t >= counts[-1][0] - _MINUTE - 1]
        return float(sum(max(0, after - before) for before, after in pairwise(since)))

    def _fit(self) -> tuple[float | None, float | None]:
        """Seconds of a decode step as ``base + each · running``, by least squares over the loads seen."""
        if len(self._loads) < 8:
            return None, None
        running, rate = np.array(self._loads, dtype=float).T
        if running.max() < _SPREAD * running.min():
            return None, None
        each, base = np.polyfit(running, running / rate, 1)
        return (float(base), float(each)) if base > 0 and each >= 0 else (None, None)


class Loads:
    """All of ``load.jsonl`` up to now. ``marks`` are the run's own counts of the last start, by dataset.

    ``events`` tell when each start began, which what it has done does not where the one before had not one token yet,
    and when the run was paused: time in which nothing was in flight then is no time of generating.
    """

    def __init__(self, path: Path, events: Events | None = None) -> None:
        self._path = path
        self._events = events or Events(path.with_name("events.jsonl"))
        self._decode = msgspec.json.Decoder(_Line).decode
        self._begin()

    def _begin(self) -> None:
        self._tail = Tail(self._path)
        self.engines: dict[str, EngineLoad] = {}
        self.timeline = Timeline()
        self.marks: deque[tuple[float, dict[str, Done]]] = deque()
        self.first: tuple[float, dict[str, Done]] | None = None  # of the last start
        self.last = 0.0
        self.idle = 0.0  # seconds of the last start that were none of generating
        self.seconds = 0.0  # of all earlier starts together, without those
        self.earlier: dict[str, int] = {}  # tokens of earlier starts
        self._now: dict[str, Done] = {}
        self._idled = False
        self._round: dict[str, _Line] = {}
        self.unread: list[Unread] = []
        self._bad = (0, 0, "")

    def refresh(self) -> None:
        for number, _, line in self._tail.lines():
            try:
                self._take(self._decode(line))
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                lines, first, reason = self._bad
                self._bad = (lines + 1, first or number, reason or str(error))
        if self._tail.replaced:
            self._begin()
            self.refresh()
        lines, first, reason = self._bad
        self.unread = [Unread(self._path.name, lines, first, reason)] if lines else []

    def _take(self, line: _Line) -> None:
        self.last = max(self.last, line.time)
        if line.done is not None:
            self._point()
            self._mark(line.time, line.done)
        elif line.engine is not None:
            if line.engine in self._round:
                self._point()
            engine = self.engines.setdefault(line.engine, EngineLoad(line.engine))
            engine.state, engine.in_flight, engine.cap = line.state, line.in_flight, line.cap
            line.load = engine.add(line.time, line.load)
            self._round[line.engine] = line
        else:
            raise msgspec.ValidationError("neither of an engine nor of the run")

    @property
    def patience(self) -> float:
        """Seconds after which the newest sample is not what is now, by how often they come; a slow one waits."""
        steps = [after - before for (before, _), (after, _) in pairwise(self.marks)]
        return max(_OLD, _LATE * median(steps[-_LOOKS:])) if steps else _RARE

    def progress(self, weights: dict[str, float]) -> list[tuple[float, float]]:
        """(time, tokens) of the last start, each dataset's as heavy as it weighs, with the time left out in which it
        was idle."""
        since = self.first[0] if self.first else 0.0
        points = [p for p in self.timeline.points if p.time >= since]
        idle, found = 0.0, []
        for before, point in zip(points[:1] + points, points, strict=False):
            idle += 0.0 if before.in_flight else self._events.paused(before.time, point.time)
            tokens = sum(weights.get(name, 1.0) * number for name, number in point.tokens.items())
            found.append((point.time - idle, tokens))
        return found

    def _mark(self, time: float, done: dict[str, Done]) -> None:
        fell = any(done.get(name, Done()).tokens < before.tokens for name, before in self._now.items())
        if self.first is None or fell or any(self.first[0] < at <= time for at in self._events.begun):
            self._next_start(time, done)
        self._idle(time)
        self._now = done
        self.marks.append((time, done))
        while self.marks[0][0] < time - _RECENT - 30:
            self.marks.popleft()

    def _idle(self, time: float) -> None:
        """Leave out the time since the mark before where it was idle: rates of the last minutes begin behind it."""
        if not self.marks:
            return
        before = self.marks[-1]
        flying = any(e.in_flight for e in self.engines.values())
        idle = 0.0 if flying else self._events.paused(before[0], time)
        self.idle += idle
        if self._idled and not idle:
            self.marks = deque([before])
        self._idled = idle > 0

    def _next_start(self, time: float, done: dict[str, Done]) -> None:
        for name, before in self._now.items():
            self.earlier[name] = self.earlier.get(name, 0) + before.tokens
        if self.first:
            self.seconds += self.marks[-1][0] - self.first[0] - self.idle
        self.first, self.idle, self._idled = (time, done), 0.0, False
        self.marks.clear()
        self.engines.clear()

    def _point(self) -> None:
        """A round of samples is complete: one point of the timeline."""
        if not self._round:
            return
        lines, self._round = list(self._round.values()), {}
        loads = [line.load for line in lines if line.load]
        used = [(s.kv_used, s.kv_total) for s in loads if s.kv_used is not None and s.kv_total]
        rates = [s.generation_rate for s in loads if s.generation_rate is not None]
        self.timeline.add(
            Point(
                time=lines[0].time,
                tokens={n: self.earlier.get(n, 0) + d.tokens + d.growing for n, d in self._now.items()},
                running=sum(s.running for s in loads),
                queued=sum(s.queued for s in loads),
                in_flight=sum(line.in_flight or 0 for line in lines),
                cap=sum(line.cap or 0 for line in lines),
                kv_use=sum(u for u, _ in used) / sum(t for _, t in used) if used else None,
                rate=sum(rates) if rates else None,
            )
        )
