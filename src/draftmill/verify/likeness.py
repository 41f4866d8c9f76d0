"""Whether rows are an engine's own: what it said of them judged, with a verdict. Derived in docs/verify.md.

Each judgement is a difference from what should be, with its standard error; chance makes four of those once in 16,000
times. What is beyond chance is held against the most that lower precision was measured to make
(``benchmarks/bench_replay.py``): more than that is another model, template or sampler.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
import numpy as np

from draftmill.engines.protocol import Identity
from draftmill.engines.voice import Recorded, distance
from draftmill.render.tokenizer import Tokenizer
from draftmill.verify.cuts import odd_cuts
from draftmill.verify.draws import BORDER, Draws, Fit, first, greedy_gaps, joined, log_evidence
from draftmill.verify.replay import Heard, Replay
from draftmill.verify.tally import Tally

SURE = 4.0  # standard errors
ODDS = float(np.log(1e6))  # that a single row is not its sampler's
CUTS = float(np.log(1000))  # odds that as many words as are missing are missing by chance
SURPLUS = 0.05  # nats an id by which lower precision moves the mean log-probability, at most
SHARE = 0.02  # of the ids that it moves in or out of the listed ones, at most
GAP = 0.02  # nats that greedy ids of lower precision lie below the likeliest, on average and at most
CUT = 0.001  # of the ids that it moves over the border of what top-k, top-p and min-p let through, at most
MANY_CUT = 0.1  # of a row's ids that lie beyond that border
WORST_GAP = 2.0  # nats that one of them does
TIE = 0.02  # nats below which rounding decides between two ids
START = 4  # ids of an answer that depend the most on how its prompt was rendered
FEW = 100  # of them below which their sum is no normal one yet
FEWEST = 200  # ids below which a verdict would say nothing
EVERYTHING = "all together"
# how servers call numbers of 8 bits and less
_COARSE = re.compile(r"(?i)(^|[^a-z])i?q[1-8]_|fp8|fp4|int[48]|nf4|awq|gptq|w[48]a|e4m3|e5m2")
OF_SAMPLED = ("replay-likelihood", "replay-unlisted", "replay-start", "replay-cut", "replay-re-tokenised")
OF_GREEDY = ("replay-greedy", "replay-divergence")
CHECKS = (*OF_SAMPLED, *OF_GREEDY, "replay-row", "replay-precision")


class Verdict(StrEnum):
    """What the rows are, next to the engine that was asked."""

    SAME = "same model"
    COARSER = "same model, lower precision"
    OTHER = "another model, template or sampler"
    UNKNOWN = "too few ids to tell"


class Finding(NamedTuple):
    """One judgement of a group of rows: in words, whether it is beyond chance, and surely beyond lower precision."""

    check: str
    words: str
    unlike: bool
    other: bool
    error: float = 0.0


class Makers(NamedTuple):
    """What is known of the engines that made the rows: what they said of themselves, and of fixed ids at every start of
    the run. Of the same weights they differ by ``tolerance`` nats on average at most."""

    identities: Sequence[Identity] = ()
    recorded: Recorded = Recorded()
    tolerance: float = 0.0


class Judged(msgspec.Struct, frozen=True):
    """A replay as ``verification.json`` has it: ``figures`` by group of rows, in words. ``resolution`` is the least
    difference of the mean log-probability, in nats an id, that so many sampled ids show; None of greedy ones."""

    engine: str
    verdict: Verdict
    rows: int
    ids: int
    figures: dict[str, list[str]]
    resolution: float | None = None
    silent: list[str] = []


def judge(replay: Replay, tallies: dict[str, Tally], tokenizer: Tokenizer | None, makers: Makers) -> Judged:
    """Judge what an engine said, and count it into the tally of each dataset."""
    for tally in tallies.values():
        for check in CHECKS:
            tally.look(check, 0)
    figures: dict[str, list[str]] = {}
    resolution: float | None = None
    unlike = other = False
    for name, group in _groups(replay.heard):
        tally = tallies[group[0].asked.dataset]
        for finding in _findings(group, tokenizer):
            figures.setdefault(name, []).append(finding.words)
            tally.look(finding.check)
            tally.look("replay-precision")
            remark = f"{name}: {finding.words}"
            if finding.other:
                tally.hit(finding.check, 0, remark=remark)
            elif finding.unlike:
                tally.hit("replay-precision", 0, remark=remark)
            unlike, other = unlike or finding.unlike, other or finding.other
            if finding.check == "replay-likelihood":
                resolution = min(SURE * finding.error, resolution or np.inf)
    for finding in _of_makers(makers, replay):
        tally = next(iter(tallies.values()))
        figures.setdefault("the run", []).append(finding.words)
        tally.look(finding.check)
        if finding.unlike:
            tally.hit(finding.check, 0, remark=f"the run: {finding.words}")
        unlike |= finding.unlike
    for heard in replay.heard:
        other |= _of_row(heard, tallies[heard.asked.dataset])
    other |= any(tally.found.get("replay-cut", 0) > CUT * tally.looked["replay-cut"] for tally in tallies.values())
    ids = sum(len(heard.drawn) for heard in replay.heard)
    verdict = Verdict.OTHER if other else Verdict.COARSER if unlike else Verdict.SAME
    return Judged(
        replay.engine.name,
        Verdict.UNKNOWN if verdict is Verdict.SAME and ids < FEWEST else verdict,
        len(replay.heard),
        ids,
        figures,
        None if resolution is None else round(resolution, 4),
        [f"{where}: {why}" for where, why in replay.silent],
    )


def _of_makers(makers: Makers, replay: Replay) -> Iterator[Finding]:
    """What precision the engines of a run had, which sampled ids cannot show: noise in the logits averages out of what
    is drawn (docs/verify.md)."""
    if replay.voice:
        farthest: dict[str, float] = {}
        for voice in makers.recorded.voices:
            apart = distance(voice, replay.voice)
            farthest[voice.engine] = max(farthest.get(voice.engine, 0.0), apart)
        for name, apart in farthest.items():
            unlike = apart > makers.tolerance
            words = (
                f"{name} was {apart:.4f} nats from this engine on {len(replay.voice.said)} ids at a start, "
                f"{'above' if unlike else 'within'} {makers.tolerance:g}"
            )
            yield Finding("replay-precision", words, unlike, other=False)
    if told := coarser(makers.identities, replay.engine):
        yield Finding("replay-precision", told, unlike=True, other=False)


def coarser(recorded: Sequence[Identity], engine: Identity) -> str:
    """What a run's engines said of coarse weights or KV cache that this engine does not say of itself, or ""."""
    for said in recorded:
        for what, theirs, ours in (
            ("weights", said.weights, engine.weights),
            ("KV cache", said.kv_dtype, engine.kv_dtype),
        ):
            if theirs and theirs != ours and _COARSE.search(theirs):
                return f"{said.name} said that its {what} were {theirs}; {engine.name} says {ours or 'nothing of that'}"
    return ""


def _groups(heard: Sequence[Heard]) -> Iterator[tuple[str, list[Heard]]]:
    """The rows of each dataset, and all that were sampled, or greedy, of several."""
    names = list(dict.fromkeys(one.asked.dataset for one in heard))
    for name in names:
        yield name, [one for one in heard if one.asked.dataset == name]
    for greedy in (False, True):
        alike = [one for one in heard if (one.asked.sampling.temperature == 0) is greedy]
        if len({one.asked.dataset for one in alike}) > 1:
            yield EVERYTHING, alike


def _findings(group: Sequence[Heard], tokenizer: Tokenizer | None) -> Iterator[Finding]:
    sampled = [one for one in group if one.asked.sampling.temperature > 0]
    greedy = [one for one in group if one.asked.sampling.temperature == 0]
    if sampled:
        drawn = joined([one.drawn for one in sampled])
        yield _likelihood(Fit(drawn))
        yield _unlisted(drawn)
        begun = joined([first(one.drawn, START) for one in sampled])
        for finding in (_likelihood(Fit(begun)), _unlisted(begun)) if len(begun) >= FEW else ():
            yield finding._replace(check="replay-start", words=f"of the first {START} ids of answers {finding.words}")
        if tokenizer:
            yield _cuts(*odd_cuts(sampled, tokenizer))
    if greedy:
        yield _greedy(np.concatenate([greedy_gaps(one.scored) for one in greedy]))


def _likelihood(fit: Fit) -> Finding:
    off, error = fit.surplus()
    should = float(fit.said_M.mean()) - off if len(fit) else 0.0
    words = (
        f"the listed ids have a mean log-probability of {should + off:.3f}, should have {should:.3f} ± {error:.3f}: "
        f"they are the likeliest at {fit.warmth():.2f} × the temperature"
    )
    return Finding("replay-likelihood", words, abs(off) > SURE * error, abs(off) - SURE * error > SURPLUS, error)


def _unlisted(drawn: Draws) -> Finding:
    number, seen, least, most = len(drawn), int(drawn.unlisted_N.sum()), drawn.least_N, drawn.most_N
    low, high = float(least.sum()), float(most.sum())
    chance = most if seen > high else least
    error = float(np.sqrt(max((chance * (1 - chance)).sum(), 1.0)))
    off = max(seen - high, low - seen, 0.0)
    due = f"{high:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"
    words = f"{seen:,} of {number:,} ids are none of the likeliest, should be {due} ± {error:.0f}"
    return Finding("replay-unlisted", words, off > SURE * error, off - SURE * error > SHARE * number)


def _cuts(seen: int, due: float) -> Finding:
    """By Chernoff's bound for a sum of independent events: at most exp(-(due - seen + seen ln(seen / due)))."""
    tail = due - seen + (seen * float(np.log(seen / due)) if seen else 0.0)
    few = seen < due and tail > CUTS
    return Finding(
        "replay-re-tokenised", f"{seen} words are cut otherwise than by the tokenizer, should be {due:.1f}", few, few
    )


def _greedy(gaps: "np.typing.NDArray[np.float64]") -> Finding:
    apart = gaps[gaps > TIE]
    mean, error = float(gaps.mean()), float(gaps.std() / np.sqrt(len(gaps)))
    words = f"{len(apart):,} of {len(gaps):,} greedy ids are not the likeliest, by {mean:.4f} nats on average"
    words += f" and {apart.max():.2f} at most" if len(apart) else ""
    return Finding("replay-greedy", words, len(apart) > 0, mean - SURE * error > GAP)


def _of_row(heard: Heard, tally: Tally) -> bool:
    """The checks of one row; whether it is none of its sampler's."""
    asked, drawn = heard.asked, heard.drawn
    ids, start = [*asked.prompt, *asked.answer], len(asked.prompt)
    tally.look("replay-row")
    if asked.sampling.temperature == 0:
        tally.look("replay-divergence")
        if parting := heard.parting:
            near = "a near-tie" if abs(parting.gap) <= TIE else "no near-tie"
            remark = f"generated again it is another from id {parting.at} on, {parting.gap:.3f} nats likelier: {near}"
            tally.hit("replay-divergence", asked.row, ids, start + parting.at, remark)
        gaps = greedy_gaps(heard.scored)
        worst, strange = int(gaps.argmax()), bool(gaps.max() > WORST_GAP)
        remark = f"an id {gaps[worst]:.1f} nats below the likeliest"
    else:
        beyond = np.flatnonzero(drawn.beyond_N > BORDER).tolist()
        tally.look("replay-cut", len(drawn))
        for at in beyond:
            remark = f"{drawn.beyond_N[at]:.1f} nats below what top-k, top-p and min-p let through"
            tally.hit("replay-cut", asked.row, ids, start + at, remark)
        evidence = log_evidence(drawn)
        worst, strange = int(np.argmin(heard.scored.logprobs)), evidence > ODDS or len(beyond) > MANY_CUT * len(drawn)
        least = f"the worst id has a log-probability of {min(heard.scored.logprobs):.1f}"
        cut = f"{len(beyond)} of its {len(drawn)} ids are beyond what may be drawn"
        remark = f"{least}; " + (
            cut if beyond else f"10^{evidence / np.log(10):.0f} times likelier under another sampler"
        )
    if strange:
        tally.hit("replay-row", asked.row, ids, start + worst, remark)
    return strange
