"""Axes of a report's charts: round ticks, short labels, and a time axis without the time in which nothing ran."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

_TIME_STEPS = (1, 2, 5, 10, 15, 30)  # seconds, then minutes; hours and days have their own
_STEPS = (
    *_TIME_STEPS,
    *(60 * s for s in _TIME_STEPS),
    *(3600 * h for h in (1, 2, 3, 6, 12)),
    *(86_400 << n for n in range(8)),
)
_PAUSE = 60.0  # seconds without a sample, or eight times the usual step, in which nothing ran
_BREAK = 0.012  # of the axis, where such a time is left out


class TimeAxis:
    """Where a time lies between 0 and 1, the time in which nothing ran left out; ``breaks`` are (from, to) of those.

    ``times`` ascend and are not empty. ``seconds`` is how long it ran.
    """

    def __init__(self, times: Sequence[float]) -> None:
        steps = [b - a for a, b in pairwise(times)]
        pause = max(_PAUSE, 8 * median(steps)) if steps else _PAUSE
        starts = [times[0], *(b for a, b in pairwise(times) if b - a > pause)]
        ends = [*(a for a, b in pairwise(times) if b - a > pause), times[-1]]
        self.spans = list(zip(starts, ends, strict=True))
        self.seconds = sum(end - start for start, end in self.spans)
        ran = self.seconds or 1.0
        whole = ran * (1 + _BREAK * (len(self.spans) - 1))
        self._scale = 1 / whole
        self._offsets: list[float] = []
        at = 0.0
        for start, end in self.spans:
            self._offsets.append(at)
            at += end - start + _BREAK * ran
        self.breaks = [((offset - _BREAK * ran) / whole, offset / whole) for offset in self._offsets[1:]]

    def span_of(self, time: float) -> int:
        """The number of the span that a time lies in, or behind."""
        return max((n for n, (start, _) in enumerate(self.spans) if time >= start), default=0)

    def at(self, time: float) -> float:
        """Where it lies; a time outside of all spans lies at the nearest end."""
        number = self.span_of(time)
        start, end = self.spans[number]
        return min(1.0, (self._offsets[number] + min(max(time, start), end) - start) * self._scale)

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """(where, label) of round times since the first sample, what was left out not counted."""
        step = next((s for s in _STEPS if self.seconds / s <= most), _STEPS[-1])
        ticks, ran = [], 0.0
        for number, (start, end) in enumerate(self.spans):
            first = -(-ran // step) * step
            while first < ran + end - start or (first == ran + end - start and number == len(self.spans) - 1):
                ticks.append(((self._offsets[number] + first - ran) * self._scale, elapsed(first)))
                first += step
            ran += end - start
        return ticks


def elapsed(seconds: float) -> str:
    """0, 30s, 5m, 1h, 1h30, 2d, 2d12h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s" if whole else "0"
    if whole < 3600:
        return f"{whole // 60}m" + (f"{whole % 60:02d}" if whole % 60 else "")
    if whole < 86_400:
        return f"{whole // 3600}h" + (f"{whole % 3600 // 60:02d}" if whole % 3600 else "")
    return f"{whole // 86_400}d" + (f"{whole % 86_400 // 3600}h" if whole % 86_400 else "")


def ticks(top: float, most: int = 4) -> list[float]:
    """Round values from 0 to one that is not below ``top``, at most so many above 0."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / most
    power = 1.0
    while power * 10 <= rough:
        power *= 10
    while power > rough:
        power /= 10
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    number = 1
    while number * step < top * (1 - 1e-9):
        number += 1
    return [n * step for n in range(number + 1)]


def short(value: float) -> str:
    """A number on an axis: 0.5, 250, 1.5k, 10M."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * (1 - 1e-9):
            return f"{value / size:.4g}{name}"
    return f"{value:.3g}"
