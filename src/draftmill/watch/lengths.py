"""How long things are, in a histogram that grows with neither their number nor their size."""

from collections.abc import Iterable

import numpy as np

from draftmill.watch.figures import Lengths

_FINE = 64  # lengths up to it are told apart; above, a bucket is a 64th of its length wide
_MOST = 1 << 31


def _edges() -> list[int]:
    edges = [0]
    while edges[-1] < _MOST:
        edges.append(edges[-1] + max(1, edges[-1] // _FINE))
    return edges


EDGES = np.array(_edges(), dtype=np.int64)


class Histogram:
    """Counts by length: exact up to 64 tokens, within a 64th above. ``total`` and ``longest`` are exact."""

    def __init__(self) -> None:
        self.counts = np.zeros(len(EDGES), dtype=np.int64)
        self.count = 0
        self.total = 0
        self.longest = 0

    def add(self, tokens: int) -> None:
        self.counts[int(np.searchsorted(EDGES, tokens, side="right")) - 1] += 1
        self.count += 1
        self.total += tokens
        self.longest = max(self.longest, tokens)

    def add_all(self, tokens: "np.ndarray") -> None:
        """Many at once."""
        if not len(tokens):
            return
        buckets = np.searchsorted(EDGES, tokens, side="right") - 1
        self.counts += np.bincount(buckets, minlength=len(EDGES))
        self.count += len(tokens)
        self.total += int(tokens.sum(dtype=np.int64))
        self.longest = max(self.longest, int(tokens.max()))

    def merged(self, others: Iterable["Histogram"]) -> "Histogram":
        """This one and others together."""
        made = Histogram()
        for each in (self, *others):
            made.counts += each.counts
            made.count += each.count
            made.total += each.total
            made.longest = max(made.longest, each.longest)
        return made

    def quantile(self, share: float) -> float:
        """The length that this share of them do not exceed; 0 where there are none."""
        if not self.count:
            return 0.0
        bucket = int(np.searchsorted(np.cumsum(self.counts), max(1, share * self.count)))
        low, high = int(EDGES[bucket]), int(EDGES[min(bucket + 1, len(EDGES) - 1)])
        return float(min(self.longest, (low + high - 1) / 2))

    def bins(self, number: int = 40) -> list[tuple[int, int, int]]:
        """(from, below, count) of at most so many bins of equal ratio that hold all, for a chart."""
        if not self.count:
            return []
        used = np.nonzero(self.counts)[0]
        first, last = int(used[0]), int(used[-1])
        step = max(1, -(-(last - first + 1) // number))
        return [
            (int(EDGES[i]), int(EDGES[min(i + step, len(EDGES) - 1)]), int(self.counts[i : i + step].sum()))
            for i in range(first, last + 1, step)
        ]

    def figures(self) -> Lengths | None:
        """None where there are none."""
        if not self.count:
            return None
        p10, p50, p90, p99 = (self.quantile(share) for share in (0.1, 0.5, 0.9, 0.99))
        return Lengths(self.count, self.total, self.total / self.count, p10, p50, p90, p99, self.longest)
