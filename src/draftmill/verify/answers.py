"""How answers end: checks of one answer's ids, with no text."""

import numpy as np

from draftmill.verify.habits import Habits
from draftmill.verify.lines import Ids, Row
from draftmill.verify.model import STOP, WHITE, Flags
from draftmill.verify.tally import Tally

_PERIOD = 64  # ids of the longest n-gram that counts as a loop
_REPEATS = 4
_LOOPED = 16  # ids that a loop covers at least
_SHOWN = 12  # ids of a loop that an example shows, at least


def check_end(
    row: Row,
    number: int,
    spans: list[tuple[int, int]],
    flags: Flags,
    habits: Habits,
    tally: Tally,
    limit: int | None = None,
    said: str | None = None,
) -> bool:
    """Look at the end of a row's answers. ``flags`` are those of its ids, ``limit`` the last answer's token limit and
    ``said`` how it ended by the journal, where that is known. Returns whether the last one was cut."""
    for start, end in spans:
        stops = np.flatnonzero(flags[start : end - 1] & STOP)
        # some templates write a line end behind the end of a turn, and some masks take it along
        inner = [int(at) for at in stops if not _only_white(flags[start + at + 1 : end])]
        if inner:
            tally.hit("inner-end", number, row.ids, start + inner[0])
        if not (flags[start:end] & (STOP | WHITE) == 0).any():
            tally.hit("empty", number, row.ids, start)
    start, end = spans[-1]
    period = loop(row.ids[start : end - 1] if flags[end - 1] & STOP else row.ids[start:end])
    if period:
        tally.hit("loop", number, row.ids, end - _SHOWN, f"{period} ids again and again")
    closed = end < len(row.ids) or bool(flags[end - 1] & STOP) or _closed_before_white(flags[start:end])
    unfinished = False
    if row.finish is not None:
        tally.look("finish-reason")
        why = _misfit(str(row.finish), closed, end - start, limit)
        if not why and said not in (None, row.finish):
            why = f"{row.finish}, and the journal says {said}"
        if why:
            tally.hit("finish-reason", number, row.ids, end, why)
    else:
        tally.look("unfinished")
        unfinished = not closed and end - start not in habits.limits and len(row.ids) not in habits.totals
        if unfinished:
            tally.hit("unfinished", number, row.ids, end)
    if (str(row.finish) == "length" if row.finish is not None else not closed) and not unfinished:
        tally.hit("truncated", number, row.ids, end)
    return not closed


def _only_white(flags: Flags) -> bool:
    return bool((flags & WHITE).all())


def _closed_before_white(flags: Flags) -> bool:
    """Whether an end of turn stands last but for white space."""
    stops = np.flatnonzero(flags & STOP)
    return len(stops) > 0 and _only_white(flags[stops[-1] + 1 :])


def _misfit(finish: str, closed: bool, length: int, limit: int | None) -> str:
    """Why an answer cannot have ended as it says, or "". A stop id as the last of ``limit`` ids fits both."""
    if finish == "stop":
        return "" if closed else "stop, and the last id ends no turn"
    if finish == "length":
        if limit is None:
            return "length, and the last id ends the turn" if closed else ""
        return "" if length == limit else f"length, with {length} ids of {limit}"
    return f"{finish!r} is no way to end"


def loop(ids: Ids) -> int:
    """The length of the n-gram whose repetition an answer ends with, 0 where it does not."""
    back = ids[-_PERIOD * _REPEATS - 1 :]
    if len(back) < _LOOPED:
        return 0
    for period in (len(back) - 1 - np.flatnonzero(back[:-1] == back[-1])[::-1]).tolist():
        if period > _PERIOD or period * _REPEATS > len(back):
            return 0
        covered = max(_LOOPED, period * _REPEATS)
        if (back[-covered + period :] == back[-covered:-period]).all():
            return int(period)
    return 0
