"""One lane: how many of its prompts are under way under its cap, and those that wait to be sent again."""

import heapq
import itertools
from dataclasses import dataclass, field

from draftmill.mill import clock
from draftmill.mill.work import Work


@dataclass
class LaneQueue:
    """``cap``: most requests of this lane at once over all engines."""

    name: str
    cap: int | None
    in_flight: int = 0
    _again: list[tuple[float, int, Work]] = field(default_factory=list)  # a heap by the time of the next try
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def full(self) -> bool:
        return self.cap is not None and self.in_flight >= self.cap

    def again(self) -> Work:
        """The first prompt that waits to be sent again; ``due`` says whether there is one."""
        return heapq.heappop(self._again)[2]

    def later(self, work: Work, seconds: float) -> None:
        """Take a prompt back, to be sent again after so many seconds."""
        heapq.heappush(self._again, (clock.now() + seconds, next(self._numbers), work))

    def due(self) -> float:
        """When the first prompt that waits may be sent again (``clock.now``); infinite where none waits."""
        return self._again[0][0] if self._again else float("inf")
