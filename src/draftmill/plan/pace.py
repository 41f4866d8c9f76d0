"""How fast the planned server decodes, and who says so."""

import msgspec

from draftmill.capacity import speed
from draftmill.capacity.kv import of_sequence
from draftmill.capacity.speed import Speed
from draftmill.plan.facts import Facts
from draftmill.recipe import Plan

GUESSED = "guessed"
_NEAR = 0.25  # so far from the one load that was seen, its rate holds
_FIT_ERROR, _GUESS_ERROR = 0.12, 1.0  # around a line through loads (the reference run's lie within it), of a guess


class Pace(msgspec.Struct, frozen=True):
    """How fast a server decodes, who says so, and how far off that may be; ``at`` the one load that it was seen at."""

    speed: Speed | None
    source: str
    off: float = _GUESS_ERROR
    at: float | None = None

    def error(self, running: float) -> float:
        """The relative error at so many running: one load says little of another."""
        if self.at is None or abs(running / self.at - 1) < _NEAR:
            return self.off
        return _GUESS_ERROR


def pace(plan: Plan, facts: Facts, held: float) -> Pace:
    """The speed from two observed loads, else one, else the run's own pace, else the card's data sheet.

    ``held`` are the tokens of a running request.
    """
    points = [(load.running, load.rate) for load in plan.loads]
    source = f"{len(points)} observed loads"
    if len({n for n, _ in points}) < 2 and len({n for n, _ in facts.loads}) >= 2:
        points, source = facts.loads, f"{len(facts.loads)} loads of the run"
    if len({n for n, _ in points}) >= 2:
        return Pace(speed.sane(speed.fit(points)), source, _FIT_ERROR)
    if one := (*points, *facts.loads, facts.pace)[0]:
        return Pace(Speed(one[0] / one[1], 0.0), f"one load, {one[0]:g} at once", _FIT_ERROR, one[0])
    shape, size = facts.model.shape, facts.loaded(plan)
    if facts.card is None or size is None or not held:
        return Pace(None, "unknown: give an observed load")
    kept = of_sequence(shape, plan.kv, int(held)) / (1 if shape.mla else plan.tp) / plan.pp
    guessed = speed.guess(size, facts.card.bandwidth, held=kept, experts=shape.experts, chosen=shape.chosen)
    return Pace(guessed, GUESSED)
