"""What is usual in a file of rows, learned from a sample of it where nobody says: what stands before an answer, which
ids end one, at which lengths answers are cut."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from draftmill.verify.lines import Mask, Row, hash_of
from draftmill.verify.model import STOP, TAIL, THINKS, Flags, without_model
from draftmill.verify.pairs import Pairs, count

_USUAL = 0.1  # of the answers: what at least so many have in common is a habit, and no fault of a few
_ENDS = 0.2  # of the rows end with an id that ends answers, where nobody says which does


@dataclass(frozen=True)
class Habits:
    """``tails`` are the last ids before an answer (none: not known), ``flags`` the bits of ids, ``limits`` the lengths
    at which answers are cut, ``totals`` those of whole rows; ``thinks``: most answers hold thinking."""

    tails: frozenset[tuple[int, ...]]
    flags: Flags
    limits: frozenset[int]
    totals: frozenset[int]
    thinks: bool
    vocab_size: int | None = None
    pairs: Pairs | None = None


def blocks(mask: Mask) -> list[tuple[int, int]]:
    """The supervised spans [start, end) of a mask, in order."""
    if not len(mask):
        return []
    edges = (np.flatnonzero(mask[1:] != mask[:-1]) + 1).tolist()
    edges = [0] * int(mask[0]) + edges + [len(mask)] * int(mask[-1])
    return list(zip(edges[::2], edges[1::2], strict=True))


def learn(
    sample: Iterable[Row],
    flags: Flags | None = None,
    tails: frozenset[tuple[int, ...]] = frozenset(),
    vocab_size: int | None = None,
) -> Habits:
    """The habits of a sample; ``flags`` and ``tails`` are the model's, where it is known."""
    kept = [(row, blocks(row.mask)) for row in sample if len(row.ids) and len(row.mask) == len(row.ids)]
    kept = [(row, spans) for row, spans in kept if spans]
    before = Counter(
        tuple(row.ids[max(0, start - 4) : start].tolist()) for row, spans in kept for start, _ in spans if start
    )
    answers = before.total()
    usual = {tail for tail, number in before.items() if number >= _USUAL * answers}
    if flags is None:
        last = Counter(int(row.ids[-1]) for row, _ in kept)
        flags = without_model(frozenset(id for id, n in last.items() if n >= _ENDS * len(kept) and n > 1))
    cut = [(row, spans[-1]) for row, spans in kept if spans[-1][1] == len(row.ids)]
    cut = [(row, span) for row, span in cut if not flags.take(int(row.ids[-1]), mode="clip") & STOP]
    thinking = sum(bool((flags.take(row.ids[spans[0][0] :], mode="clip") & THINKS).any()) for row, spans in kept)
    return Habits(
        tails=frozenset(tail[-TAIL:] for tail in tails) or frozenset(usual),
        flags=flags,
        limits=_ceilings([end - start for _, (start, end) in cut], [e - s for _, spans in kept for s, e in spans]),
        totals=_ceilings([len(row.ids) for row, _ in cut], [len(row.ids) for row, _ in kept]),
        thinks=thinking > 0.5 * len(kept),
        vocab_size=vocab_size,
    )


def pairs_of(sample: Iterable[Row]) -> Pairs | None:
    """The pairs of ids that a sample holds; None where it is too small to tell."""
    kept = ((row, blocks(row.mask)) for row in sample if len(row.ids) and len(row.mask) == len(row.ids))
    return count((hash_of(row.ids), row.ids, row.ids[slice(*spans[-1])]) for row, spans in kept if spans)


def _ceilings(cut: list[int], all: list[int]) -> frozenset[int]:
    """The lengths that many unfinished ones share, or that nothing exceeds."""
    shared = {length for length, n in Counter(cut).items() if n >= max(3, _USUAL * len(cut))}
    longest = max(all, default=0)
    return frozenset(shared | ({longest} if longest in cut else set()))
