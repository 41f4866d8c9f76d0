"""How far a run is: a table on a terminal, a line now and then in a log. Rates are those of the last half minute."""

import sys
import threading
import time
from collections import deque
from itertools import chain, repeat
from typing import NamedTuple

from rich.table import Table

from draftmill.cli.console import count, duration, label, table
from draftmill.mill.loop import Loop
from draftmill.mill.seat import State

PLAIN_EVERY = 10.0  # seconds between two plain lines at first: a log of days is not filled with them
_SELDOM_FROM, _SELDOM = 12, 60.0  # lines after which they come so many seconds apart
_WINDOW = 30.0  # seconds over which a rate is taken
_WARM_UP = 3.0  # seconds before a rate means anything
_BAR = 20  # characters of a bar


class Figures(NamedTuple):
    """Of one dataset, or of all: prompts settled and in all, tokens that count, tokens a second, seconds left."""

    name: str
    done: int
    prompts: int
    tokens: int
    budget: int | None
    rate: float
    errors: int
    flying: int
    left: float | None

    def row(self) -> tuple[str, ...]:
        share = min(1.0, self.tokens / self.budget if self.budget else self.done / max(1, self.prompts))
        return (
            self.name,
            "━" * round(share * _BAR) + "╌" * (_BAR - round(share * _BAR)),
            f"{count(self.done)}/{count(self.prompts)}",
            f"{count(self.tokens)}/{count(self.budget)}" if self.budget else count(self.tokens),
            count(self.rate) if self.rate else "–",
            count(self.errors),
            count(self.flying),
            duration(self.left),
        )

    def line(self) -> str:
        name, _, prompts, tokens, rate, errors, flying, left = self.row()
        figures = f"{prompts} prompts, {tokens} tokens, {rate} tok/s, {errors} errors"
        return f"{name}: {figures}, {flying} in flight, {left} left"


class Progress:
    """The loop's figures."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._marks: deque[tuple[float, list[tuple[int, int]]]] = deque()

    def table(self) -> Table:
        self._mark()
        columns = [("dataset", ""), ("", ""), ("prompts", "right"), ("tokens", "right"), ("tok/s", "right")]
        columns += [("errors", "right"), ("in flight", "right"), ("left", "right")]
        rows = [self._figures(index).row() for index in range(len(self._loop.streams))]
        return table(columns, rows, spare=("", "errors", "in flight", "tok/s", "tokens"))

    def line(self) -> str:
        """One line of all datasets together; the monitor shows each."""
        self._mark()
        each = [self._figures(index) for index in range(len(self._loop.streams))]
        return each[0].line() if len(each) == 1 else _all(each).line()

    def _mark(self) -> None:
        """Note where every dataset stands now, and forget what is older than the window."""
        now = time.monotonic()
        self._marks.append((now, [(s.completed + s.failed, s.tokens) for s in self._loop.streams]))
        while len(self._marks) > 2 and self._marks[0][0] < now - _WINDOW:
            self._marks.popleft()

    def _figures(self, index: int) -> Figures:
        stream = self._loop.streams[index]
        before, budget = stream.resumed, stream.standing.budget
        done = (
            before.counting + before.surplus + before.passed_through + before.error + stream.completed + stream.failed
        )
        tokens = before.counting_tokens + stream.counted
        prompt_rate, token_rate = self._rates(index)
        goes_on = not self._loop.paused and any(seat.state is State.OPEN for seat in self._loop.seats)
        left = (stream.end - done) / prompt_rate if prompt_rate and goes_on else None
        if budget and token_rate and left is not None:
            counted_rate = token_rate * stream.counted / stream.tokens
            left = min(left, max(0.0, budget - tokens) / counted_rate)
        errors, flying = before.error + stream.failed, self._loop.at_engines(index)
        return Figures(stream.name, done, stream.end, tokens, budget, token_rate, errors, flying, left)

    def _rates(self, index: int) -> tuple[float, float]:
        """Prompts and tokens a second of one dataset over the window; 0 before there is one."""
        (start, then), (end, now) = self._marks[0], self._marks[-1]
        if end - start < _WARM_UP:
            return 0.0, 0.0
        seconds = end - start
        return (now[index][0] - then[index][0]) / seconds, (now[index][1] - then[index][1]) / seconds


def _all(each: list[Figures]) -> Figures:
    """All datasets together. The budget is theirs where every one has one; what is left is as long as the longest."""
    budgets = [one.budget for one in each if one.budget is not None]
    waiting = [one for one in each if one.done < one.prompts and not (one.budget and one.tokens >= one.budget)]
    lefts = [one.left for one in waiting if one.left is not None]
    return Figures(
        name="all",
        done=sum(one.done for one in each),
        prompts=sum(one.prompts for one in each),
        tokens=sum(one.tokens for one in each),
        budget=sum(budgets) if len(budgets) == len(each) else None,
        rate=sum(one.rate for one in each),
        errors=sum(one.errors for one in each),
        flying=sum(one.flying for one in each),
        left=max(lefts, default=0.0) if len(lefts) == len(waiting) else None,
    )


class PlainLines(threading.Thread):
    """Progress lines now and then, for a log."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(daemon=True)
        self._progress = progress
        self._stopped = threading.Event()

    def run(self) -> None:
        for seconds in chain(repeat(PLAIN_EVERY, _SELDOM_FROM), repeat(_SELDOM)):
            if self._stopped.wait(seconds):
                break
            label("progress", self._progress.line())
            sys.stderr.flush()

    def stop(self) -> None:
        self._stopped.set()
        self.join()
