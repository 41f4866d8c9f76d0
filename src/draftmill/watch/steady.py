"""What bounded a run that is over: its steady part, without start, tail and pauses, judged as one engine."""

from collections.abc import Sequence
from statistics import median

import msgspec

from draftmill.watch.bottleneck import bottleneck
from draftmill.watch.figures import EngineFigures, RunFigures
from draftmill.watch.finding import Finding, Level
from draftmill.watch.loads import Point

_STEADY = 0.75  # of the most that was usually in flight: below it a run begins, drains or stands still
_ENOUGH = 10  # points


def steady(run: RunFigures, points: Sequence[Point]) -> Finding | None:
    """What the run spent most of its time on; None where its history is too short to say."""
    flights = sorted(p.in_flight for p in points if p.in_flight)
    if not flights:
        return None
    usual = flights[int(0.9 * (len(flights) - 1))]
    part = [p for p in points if p.in_flight >= _STEADY * usual]
    if len(part) < _ENOUGH:
        return None
    only = run.engines[0] if len(run.engines) == 1 else None
    middle = EngineFigures(
        name=only.name if only else "all engines",
        running=round(median(p.running for p in part)),
        queued=round(median(p.queued for p in part)),
        in_flight=round(median(p.in_flight for p in part)),
        cap=round(median(p.cap for p in part)),
        auto=False,  # it grows no more
        slots=only.slots if only else None,
        kv_use=_known([p.kv_use for p in part]),
        rate=_known([p.rate for p in part]),
        base=only.base if only else None,
        each=only.each if only else None,
    )
    found = bottleneck(msgspec.structs.replace(run, engines=[middle]), middle)
    return Finding(found.verdict, Level.INFO, "run", f"most of the time {found.message}", found.advice)


def _known(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return median(told) if told else None
