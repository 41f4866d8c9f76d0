"""Reading a server's Prometheus text: just enough for the load of an engine."""

import re
import time

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)")


def totals(text: str) -> dict[str, float]:
    """Each metric summed over its labels (data-parallel ranks, engines)."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            sums[match[1]] = sums.get(match[1], 0.0) + float(match[3])
    return sums


def label(text: str, metric: str, name: str) -> str | None:
    """One label of the first line of a metric: servers put their configuration there."""
    match = re.search(rf'^{re.escape(metric)}\{{(?:.*,)?{re.escape(name)}="([^"]*)"', text, re.MULTILINE)
    return match[1] if match else None


class Rate:
    """Per second growth of a counter between two looks at it; None at the first look and after a server's restart."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def of(self, total: float) -> float | None:
        now = time.monotonic()
        last, self._last = self._last, (now, total)
        if last is None or total < last[1] or now <= last[0]:
            return None
        return (total - last[1]) / (now - last[0])
