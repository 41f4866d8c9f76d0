"""Every effect that two engines are compared by, out of what they said: pure."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np

from draftmill.compare.distance import Distance, distance, first_difference, survival
from draftmill.compare.interval import Contrast, Floats, interval, resamples
from draftmill.compare.verdict import Effect, Kind, judge
from draftmill.engines.protocol import Scored
from draftmill.records import Finish

LEVEL = 0.95  # that all intervals hold together
LENGTH_TOLERANCE = 0.05  # of A's mean length
SHARE_TOLERANCE = 0.02  # of answers, truncated or with calls that cannot be used
_MARKS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)  # ids at which the greedy answers are looked at


class Answer(NamedTuple):
    """One answer: its ids, its end among them, and how it ended."""

    ids: list[int]
    finish: Finish


class Heard(msgspec.Struct, frozen=True):
    """What both engines said to the same prompts, one entry a prompt everywhere.

    ``a`` and ``b`` are sampled answers, ``greedy_*`` greedy ones; ``a_of_b`` is what A says of B's answers. ``again``
    is A once more, its requests in another order and fewer at once.
    """

    a: list[Answer]
    b: list[Answer]
    greedy_a: list[Answer]
    greedy_b: list[Answer]
    greedy_again: list[Answer]
    a_of_a: list[Scored]
    b_of_a: list[Scored]
    a_of_b: list[Scored]
    b_of_b: list[Scored]
    again_of_a: list[Scored]
    again_of_b: list[Scored]


class Calls(NamedTuple):
    """Tool calls of an answer: how many it has, and how many of them no serving stack could act on."""

    made: int
    unusable: int


class Parting(msgspec.Struct, frozen=True):
    """The share of prompts whose greedy answers have parted by so many ids, between A and B and between A and A."""

    ids: int
    share: float
    floor: float


def partings(heard: Heard) -> list[Parting]:
    """How the greedy answers part, up to the longest that was watched."""
    pairs = _parted(heard.greedy_a, heard.greedy_b), _parted(heard.greedy_a, heard.greedy_again)
    longest = max((n for _, n in pairs[1]), default=0)
    marks = [mark for mark in _MARKS if mark < longest] + [longest]
    both = zip(survival(pairs[0], marks), survival(pairs[1], marks), strict=True)
    return [Parting(mark, share, floor) for mark, (share, floor) in zip(marks, both, strict=True)]


def effects(
    heard: Heard, *, tolerance: float, seed: int = 0, calls: tuple[list[Calls], list[Calls]] | None = None
) -> list[Effect]:
    """All effects, the one that decides first. ``calls`` are those of A's and of B's answers to prompts with tools.

    All intervals together hold in ``LEVEL`` of cases (Bonferroni).
    """
    one = [distance(x.ids, *pair) for x, *pair in zip(heard.a, heard.a_of_a, heard.b_of_a, strict=True)]
    two = [distance(x.ids, *pair) for x, *pair in zip(heard.b, heard.b_of_b, heard.a_of_b, strict=True)]
    floor = [distance(x.ids, *pair) for x, *pair in zip(heard.a, heard.a_of_a, heard.again_of_a, strict=True)]
    floor_two = [distance(x.ids, *pair) for x, *pair in zip(heard.b, heard.a_of_b, heard.again_of_b, strict=True)]
    told = all(d.kl is not None for d in (*one, *two, *floor, *floor_two))
    tokens = _sums(one, two, attrgetter("ids"))
    asked: list[_Asked] = []
    for name, unit, field, decides in _DISTANCES:
        if told or field in ("refused", "absolute"):
            apart, noise = _sums(one, two, attrgetter(field)), _sums(floor, floor_two, attrgetter(field))
            contrast = Contrast(apart, tokens, noise, tokens)
            asked.append(_Asked(name, Kind.DISTANCE, unit, contrast, tolerance if decides else None))
    pairs = _parted(heard.greedy_a, heard.greedy_b), _parted(heard.greedy_a, heard.greedy_again)
    parting = Contrast(*(_array(column) for each in pairs for column in zip(*each, strict=True)))
    asked.append(_Asked("greedy", Kind.DISTANCE, "parted a token", parting, None))
    lengths = [[len(x.ids) for x in side] for side in (heard.a, heard.b)]
    most = LENGTH_TOLERANCE * sum(lengths[0]) / len(lengths[0])
    asked.append(_shift("length", "tokens", most, *lengths))
    cut = [[x.finish is Finish.LENGTH for x in side] for side in (heard.a, heard.b)]
    asked.append(_shift("truncated", "of answers", SHARE_TOLERANCE, *cut))
    if calls:
        made, unusable = ([[getattr(c, field) > 0 for c in side] for side in calls] for field in Calls._fields)
        asked.append(_shift("calling", "of answers", None, *made))
        asked.append(_shift("unusable calls", "of answers", SHARE_TOLERANCE, *unusable))
    level = 1 - (1 - LEVEL) / len(asked)
    return [_effect(each, level, seed) for each in asked]


class _Asked(NamedTuple):
    """An effect before its interval."""

    name: str
    kind: Kind
    unit: str
    contrast: Contrast
    tolerance: float | None


# name, unit, field of Distance, whether it is what decides
_DISTANCES = (
    ("refused", "of tokens", "refused", True),
    ("log-probability", "nats a token", "absolute", False),
    ("KL", "nats a token", "kl", False),
    ("other top", "of tokens", "other_top", False),
)


def _effect(asked: _Asked, level: float, seed: int) -> Effect:
    signed = asked.kind is Kind.SHIFT
    value, base = asked.contrast.sides()
    weights = resamples(len(asked.contrast.number), seed)
    excess = interval(asked.contrast, weights, level, signed=signed, seed=seed)
    return Effect(
        name=asked.name,
        kind=asked.kind,
        unit=asked.unit,
        value=value,
        base=base,
        excess=excess,
        tolerance=asked.tolerance,
        verdict=judge(excess, asked.tolerance, signed=signed, decides=asked.name == "refused"),
    )


def _shift(name: str, unit: str, tolerance: float | None, a: Sequence[float], b: Sequence[float]) -> _Asked:
    ones = np.ones(len(a))
    return _Asked(name, Kind.SHIFT, unit, Contrast(_array(b), ones, _array(a), ones), tolerance)


def _parted(one: Sequence[Answer], other: Sequence[Answer]) -> list[tuple[bool, int]]:
    return [first_difference(a.ids, b.ids) for a, b in zip(one, other, strict=True)]


def _sums(one: list[Distance], two: list[Distance], of: Callable[[Distance], float | None]) -> Floats:
    """A prompt's sum over both answers to it."""
    return _array([(of(a) or 0.0) + (of(b) or 0.0) for a, b in zip(one, two, strict=True)])


def _array(values: Sequence[float]) -> Floats:
    return np.array(values, np.float64)


def deciding(found: Sequence[Effect]) -> Effect:
    """The effect that decides."""
    return next(effect for effect in found if effect.name == "refused")
