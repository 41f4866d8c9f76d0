"""Which dataset sends its next prompt: all together, so that they end together, or one after the other.

Together: of every dataset the same share of its tokens is still owed at any time, so each is sent in proportion to
what it owes and none is left alone at the end. What matters is the end of the answers, not of their sending: a dataset
whose answers can become long has its last one on the way earlier, by as many tokens as its answers may be longer.
"""

from collections.abc import Sequence
from typing import NamedTuple

from draftmill.recipe import Order

_MOST_LEAD = 0.5  # of all that was owed: a very small run would otherwise send its longest answers before all others


class Owed(NamedTuple):
    """What one candidate still has to send: tokens ``left`` of the ``whole`` that it owed at the start.

    ``chain``: tokens of a long answer of it, those one after the other that nothing shortens.
    """

    left: float
    whole: float
    chain: float = 0.0

    @property
    def share(self) -> float:
        return self.left / self.whole if self.whole > 0 else 0.0


def furthest_behind(candidates: Sequence[Owed], everything: Owed, at_once: int) -> int:
    """The candidate whose plan has the longest way to go. Pure, one look at each.

    A plan leads from all to nothing while everything that is owed (``everything``, what may not be sent just now
    included) is sent down to the dataset's lead, a share of it. The lead is what is generated while one of its long
    answers outgrows those of the dataset with the shortest ones: ``at_once`` answers grow together.
    """
    best, most = 0, float("-inf")
    for number, owed in enumerate(candidates):
        lead = min((owed.chain - everything.chain) * at_once / max(1.0, everything.whole), _MOST_LEAD)
        if (to_go := lead + (1 - lead) * owed.share) > most:
            best, most = number, to_go
    return best


def total(all_owed: Sequence[Owed]) -> Owed:
    """Everything that is owed together, with the shortest chain of those that still owe anything."""
    chains = [owed.chain for owed in all_owed if owed.left > 0]
    return Owed(sum(o.left for o in all_owed), sum(o.whole for o in all_owed), min(chains, default=0.0))


def next_to_send(ready: Sequence[int], lanes: Sequence[str], owed: Sequence[Owed], order: Order, at_once: int) -> int:
    """Which of the datasets that may send now is to send, by index.

    ``one-by-one`` gives every lane's places to the first dataset that has a prompt; only the lanes are mixed, so that
    neither starves the other on an engine that is too small for both.
    """
    if len(ready) == 1:
        return ready[0]
    if order == "together":
        return ready[furthest_behind([owed[i] for i in ready], total(owed), at_once)]
    first = {lanes[i]: i for i in reversed(ready)}
    of_lane = {lane: total([o for o, its in zip(owed, lanes, strict=True) if its == lane]) for lane in first}
    return list(first.values())[furthest_behind(list(of_lane.values()), total(list(of_lane.values())), at_once)]
