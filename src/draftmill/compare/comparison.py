"""What came of a comparison, as ``compare.json`` holds it, and in one sentence what to do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from draftmill import __version__
from draftmill.compare.effects import Calls, Heard, Parting, deciding, effects, partings
from draftmill.compare.hear import Plan
from draftmill.compare.verdict import Effect, Verdict, prompts_needed, worst
from draftmill.engines.protocol import Identity
from draftmill.journal.files import replacing


class Side(msgspec.Struct, frozen=True):
    """One of the two: how it was named, what it says of itself, and how its sampled answers came out. ``tokens`` are
    generated ones, ``truncated`` how many answers the limit cut, ``unusable`` how many tool calls of ``calls``."""

    name: str
    identity: Identity
    tokens: int
    truncated: int
    calls: int | None
    unusable: int | None


class Comparison(msgspec.Struct, frozen=True):
    """A whole comparison. ``passed``: nothing was found beyond the ``tolerance``, and enough was asked to say so."""

    draftmill: str
    passed: bool
    verdict: Verdict
    says: str
    advice: str
    a: Side
    b: Side
    prompts: int
    scored: int
    limit: int
    seed: int
    sampling: dict[str, Any]
    top: int
    tolerance: float
    effects: list[Effect]
    partings: list[Parting]
    seconds: float


def compare(
    plan: Plan,
    heard: Heard,
    sides: tuple[tuple[str, Identity], tuple[str, Identity]],
    *,
    tolerance: float,
    calls: tuple[list[Calls], list[Calls]] | None,
    seconds: float,
) -> Comparison:
    """Judge what was heard. ``sides`` are the names and identities of A and B; ``calls`` are those of the answers to
    prompts with tools, None where there are none or the model writes none."""
    found = effects(heard, tolerance=tolerance, seed=plan.seed, calls=calls)
    verdict = worst([effect.verdict for effect in found])
    says, advice = sentence(verdict, found, len(plan.questions))
    of = [
        Side(
            name=name,
            identity=identity,
            tokens=sum(len(answer.ids) for answer in answers),
            truncated=sum(answer.finish == "length" for answer in answers),
            calls=sum(c.made for c in calls[i]) if calls else None,
            unusable=sum(c.unusable for c in calls[i]) if calls else None,
        )
        for i, ((name, identity), answers) in enumerate(zip(sides, (heard.a, heard.b), strict=True))
    ]
    return Comparison(
        draftmill=__version__,
        passed=verdict in (Verdict.NOISE, Verdict.TOLERATED),
        verdict=verdict,
        says=says,
        advice=advice,
        a=of[0],
        b=of[1],
        prompts=len(plan.questions),
        scored=of[0].tokens + of[1].tokens,
        limit=plan.limit,
        seed=plan.seed,
        sampling=plan.sampling.model_dump(),
        top=plan.top,
        tolerance=tolerance,
        effects=found,
        partings=partings(heard),
        seconds=round(seconds, 3),
    )


def sentence(verdict: Verdict, found: Sequence[Effect], prompts: int) -> tuple[str, str]:
    """What the verdict means, and what to do."""
    effect = deciding(found)
    low, high = max(0.0, effect.excess.low), max(0.0, effect.excess.high)
    tolerance = effect.tolerance or 0.0
    shown = f"{max(0.0, effect.excess.value):.2%} of tokens ({low:.2%} to {high:.2%})"
    refused = f"beyond its own noise A would refuse {shown} of a perfect copy of B"
    match verdict:
        case Verdict.NOISE:
            return (
                f"B differs from A no more than A from itself; more than {high:.2%} of tokens is ruled out",
                "B can take A's place for making data",
            )
        case Verdict.TOLERATED:
            others = [e.name for e in found if e is not effect and e.verdict is not Verdict.NOISE]
            more = "" if effect.verdict is Verdict.TOLERATED else f"; it shows in {', '.join(others)}"
            return (
                f"{refused}; {tolerance:.1%} are allowed{more}",
                "use B where what it saves is worth that; best where production serves B as well",
            )
        case Verdict.UNDECIDED:
            needed = prompts_needed(prompts, effect.excess, tolerance)
            more = f"about {needed:,} prompts would tell" if needed else "it lies right at the tolerance"
            return (
                f"{refused}: the interval holds the tolerance, {tolerance:.1%}",
                f"compare again with more prompts (--samples): {more}",
            )
    beyond = [e.name for e in found if e.verdict is Verdict.BEYOND]
    return (
        f"{refused}; beyond tolerance: {', '.join(beyond)}",
        "make the data with A, or serve B in production too: a drafter learns the server that made its data",
    )


def write(done: Comparison, path: Path) -> None:
    """Keep it as JSON, whole or not at all. Raises StorageError."""
    with replacing(path) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(done), indent=2) + b"\n")
