"""Where a mask begins and ends, held against where the answer does."""

from collections.abc import Iterable

import numpy as np

from draftmill.verify.habits import Habits, blocks
from draftmill.verify.lines import Ids, Row
from draftmill.verify.model import STOP
from draftmill.verify.tally import Tally

_NEAR = 16  # ids by which a mask may be shifted and is still recognised as that


def check_mask(row: Row, number: int, habits: Habits, tally: Tally, begins: int | None) -> list[tuple[int, int]]:
    """The supervised spans of a row whose mask can be read; none where it cannot. ``begins`` is where the answer does,
    where that is known."""
    if len(row.mask) != len(row.ids) or row.mask_fault:
        why = row.mask_fault or f"{len(row.mask)} of a mask for {len(row.ids)} ids"
        tally.hit("mask-shape", number, row.ids, remark=why)
        return []
    spans = blocks(row.mask)
    if not spans:
        tally.hit("unsupervised", number, row.ids)
        return []
    if begins is not None:
        _against(row, number, spans, begins, tally)
    elif habits.tails:
        _against_tails(row, number, spans, habits, tally)
    flags = habits.flags
    for _, end in spans:
        if end < len(row.ids) and flags.take(int(row.ids[end]), mode="clip") & STOP:
            if not flags.take(int(row.ids[end - 1]), mode="clip") & STOP:
                tally.hit("stop-masked", number, row.ids, end)
        elif begins is not None and end == spans[-1][1] < len(row.ids):
            tally.hit("mask-gap", number, row.ids, end, "the mask ends before the answer does")
    return spans


def _against(row: Row, number: int, spans: list[tuple[int, int]], begins: int, tally: Tally) -> None:
    """Against the one place where the row's answer begins."""
    start = spans[0][0]
    if start < begins:
        tally.hit("mask-early", number, row.ids, start, f"by {begins - start}")
    elif start > begins:
        tally.hit("mask-late", number, row.ids, start, f"by {start - begins}")
    if len(spans) > 1:
        tally.hit("mask-gap", number, row.ids, spans[0][1])


def _against_tails(row: Row, number: int, spans: list[tuple[int, int]], habits: Habits, tally: Tally) -> None:
    """Against what stands before an answer: each span must begin behind it. No new one begins in the same turn."""
    before, tails = 0, habits.tails
    for start, end in spans:
        if not any(_ends_with(row.ids, start, tail) for tail in tails):
            later = _nearest(row.ids, start, min(end, start + _NEAR) if start else end, tails)
            earlier = _nearest(row.ids, max(before, start - _NEAR), start, tails)
            if later is not None:
                tally.hit("mask-early", number, row.ids, start, f"by {later - start}")
            elif earlier is not None:
                tally.hit("mask-late", number, row.ids, start, f"by {start - earlier}")
            elif before and not (habits.flags.take(row.ids[before - 1 : start], mode="clip") & STOP).any():
                tally.hit("mask-gap", number, row.ids, before)
            else:
                tally.hit("no-boundary", number, row.ids, start)
        before = end


def _ends_with(ids: Ids, at: int, tail: tuple[int, ...]) -> bool:
    return len(tail) <= at and tuple(ids[at - len(tail) : at].tolist()) == tail


def _nearest(ids: Ids, start: int, end: int, tails: Iterable[tuple[int, ...]]) -> int | None:
    """The first place in (start, end] behind a tail."""
    for tail in tails:
        for at in np.flatnonzero(ids[start:end] == tail[-1]).tolist():
            if _ends_with(ids, start + at + 1, tail):
                return int(start + at + 1)
    return None
