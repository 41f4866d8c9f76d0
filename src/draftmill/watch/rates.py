"""Tokens a second of a run: over short windows, since its last start, and over all of its starts."""

from collections import deque

from draftmill.watch.figures import Rates
from draftmill.watch.loads import Done, Loads

SHORT, LONG = 10.0, 300.0
_WARM = 3.0  # seconds below which a rate says nothing


class Marks:
    """What a watcher saw itself, look by look: answers, error rows and tokens of one dataset, growing ones included.

    For runs whose ``load.jsonl`` does not say what was done, and for windows that are shorter than its step.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Done]] = deque()

    def add(self, time: float, done: Done) -> None:
        if self._seen and done.tokens < self._seen[-1][1].tokens:
            self._seen.clear()
        self._seen.append((time, done))
        while self._seen[0][0] < time - LONG - 30:
            self._seen.popleft()

    def over(self, seconds: float) -> tuple[float, Done] | None:
        """(seconds, what was done in them) of the last such window, as far as it was seen."""
        return _window(self._seen, seconds)


def rates(name: str, loads: Loads, marks: Marks, now: float, generated: int) -> Rates:
    """A dataset's rates. The run's own counts come first; those of the watcher fill the gaps."""
    own = deque((t, done[name]) for t, done in loads.marks if name in done)
    fresh = bool(own) and now - own[-1][0] < LONG
    now_known = bool(own) and now - own[-1][0] <= loads.patience
    short = _rate(marks.over(SHORT), SHORT / 2) or (_rate(_window(own, SHORT)) if now_known else None)
    long = _rate(_window(own, LONG)) if fresh else _rate(marks.over(LONG))
    since, done = 0.0, Done()  # this start's seconds, and what it did in them
    if loads.first and own:
        since = own[-1][0] - loads.first[0] - loads.idle
        done = _less(own[-1][1], loads.first[1].get(name, Done()))
    start, seconds = _rate((since, done)), loads.seconds + since
    tokens = loads.earlier.get(name, 0) + done.tokens or generated  # where all answers came after the last count
    run = tokens / seconds if tokens and seconds >= _WARM else None
    return Rates(short, long, run if start is None and not loads.seconds else start, run)


def lately(name: str, loads: Loads, marks: Marks, now: float) -> Done | None:
    """What was done in the last five minutes; None where nobody saw it."""
    own = deque((t, done[name]) for t, done in loads.marks if name in done)
    found = _window(own, LONG) if own and now - own[-1][0] < LONG else marks.over(LONG)
    return found[1] if found else None


def over(each: Rates) -> Rates:
    """Those of a run that is not on: what it did in the last minutes is not what it does now."""
    return Rates(start=each.start, run=each.run)


def together(each: list[Rates]) -> Rates:
    """All datasets' rates together."""
    sums = []
    for field in Rates.__struct_fields__:
        known = [value for r in each if (value := getattr(r, field)) is not None]
        sums.append(sum(known) if known else None)
    return Rates(*sums)


def _window(seen: "deque[tuple[float, Done]]", seconds: float) -> tuple[float, Done] | None:
    if len(seen) < 2:
        return None
    last, now = seen[-1]
    time, then = next((t, d) for t, d in reversed(seen) if t <= last - seconds or t == seen[0][0])
    return last - time, _less(now, then)


def _less(now: Done, then: Done) -> Done:
    tokens = now.tokens + now.growing - then.tokens - then.growing
    growing = max(now.growing, then.growing)
    return Done(now.answers - then.answers, now.failed - then.failed, max(0, tokens), growing)


def _rate(window: tuple[float, Done] | None, least: float = _WARM) -> float | None:
    """None also where nothing ended and no beginning was told of: tokens may come with whole answers only."""
    if window is None or window[0] < least:
        return None
    done = window[1]
    return done.tokens / window[0] if done.tokens or done.answers or done.growing else None
