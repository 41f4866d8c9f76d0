"""Effects between engines whose distributions are known: their order, their floor, their verdicts."""

import asyncio

import numpy as np
import pytest

from draftmill.compare.comparison import Comparison, compare
from draftmill.compare.effects import Calls, Heard, deciding, effects, partings
from draftmill.compare.hear import hear
from draftmill.compare.interval import Interval
from draftmill.compare.verdict import Effect, Verdict
from draftmill.engines.protocol import Identity
from tests.compare.toy_engine import ToyEngine, opened, plan

SIDES = (("a", Identity("toy", "a")), ("b", Identity("toy", "b")))


def heard(a: ToyEngine, b: ToyEngine, prompts: int = 24, top: int = 20) -> Heard:
    return asyncio.run(hear(opened(a), opened(b), plan(prompts, top=top), lambda *_: None))


def found(a: ToyEngine, b: ToyEngine, **asked: int) -> dict[str, Effect]:
    return {effect.name: effect for effect in effects(heard(a, b, **asked), tolerance=0.02)}


def judged(a: ToyEngine, b: ToyEngine, tolerance: float = 0.02, prompts: int = 24) -> Comparison:
    said = heard(a, b, prompts)
    return compare(plan(prompts), said, SIDES, tolerance=tolerance, calls=None, seconds=1.0)


def test_an_engine_against_itself_is_within_its_noise() -> None:
    done = judged(ToyEngine(noise=0.02), ToyEngine(noise=0.02))
    assert (done.verdict, done.passed) == (Verdict.NOISE, True), done.effects
    refused = deciding(done.effects)
    assert 0.002 < refused.base < 0.02
    assert not refused.excess.excludes_zero() and refused.excess.high < 0.005


def test_without_any_noise_nothing_lies_between() -> None:
    for effect in found(ToyEngine(), ToyEngine()).values():
        assert effect.value == effect.base and effect.excess == Interval(0.0, 0.0, 0.0), effect


@pytest.mark.parametrize(
    ("moved", "verdict"), [(0.03, Verdict.TOLERATED), (0.05, Verdict.TOLERATED), (0.3, Verdict.BEYOND)]
)
def test_what_differs_is_found_and_judged(moved: float, verdict: Verdict) -> None:
    done = judged(ToyEngine(noise=0.01), ToyEngine(moved=moved, noise=0.01))
    assert done.verdict is verdict, (done.says, done.effects)
    assert deciding(done.effects).excess.excludes_zero()
    assert done.passed == (verdict is Verdict.TOLERATED)
    assert done.says and done.advice


def test_effects_are_ordered_as_the_engines_are() -> None:
    sizes = [found(ToyEngine(noise=0.01), ToyEngine(moved=m, noise=0.01)) for m in (0.0, 0.05, 0.15, 0.5)]
    for name in ("refused", "log-probability", "KL", "other top", "greedy"):
        values = [size[name].excess.value for size in sizes]
        assert values == sorted(values), (name, values)
        assert sizes[-1][name].excess.excludes_zero(), name


def test_the_share_refused_is_the_total_variation() -> None:
    """Against the exact one over the contexts of both engines' answers."""
    a, b = ToyEngine(), ToyEngine(moved=0.3)
    said = heard(a, b)
    exact = []
    for answers in (said.a, said.b):
        for question, answer in zip(plan().questions, answers, strict=True):
            for at in range(len(answer.ids)):
                context = [*question.ids, *answer.ids[:at]]
                exact.append(abs(np.exp(a.logprobs(context)) - np.exp(b.logprobs(context))).sum() / 2)
    refused = deciding(effects(said, tolerance=0.02))
    assert refused.value == pytest.approx(float(np.mean(exact)), rel=0.1) and refused.value <= np.mean(exact)


def test_an_engine_that_tells_no_likeliest_ids() -> None:
    sizes = found(ToyEngine(), ToyEngine(moved=0.3), top=0)
    assert "KL" not in sizes and sizes["refused"].verdict is Verdict.BEYOND
    told = found(ToyEngine(), ToyEngine(moved=0.3))
    assert sizes["refused"].value == pytest.approx(told["refused"].value, rel=0.2)


def test_shifts_of_lengths_and_cut_answers() -> None:
    said = heard(ToyEngine(), ToyEngine(), prompts=40)
    longer = [answer._replace(ids=[*answer.ids, *answer.ids]) for answer in said.b]
    sizes = {e.name: e for e in effects(_with_b(said, longer), tolerance=0.02)}
    mean = np.mean([len(answer.ids) for answer in said.a])
    assert sizes["length"].excess.value == pytest.approx(mean) and sizes["length"].verdict is Verdict.BEYOND
    assert sizes["truncated"].verdict is Verdict.NOISE


def _with_b(said: Heard, answers: list) -> Heard:  # type: ignore[type-arg]
    import msgspec

    twice = [msgspec.structs.replace(s, logprobs=s.logprobs * 2, top=(s.top or []) * 2) for s in said.a_of_b]
    return msgspec.structs.replace(said, b=answers, a_of_b=twice, b_of_b=twice, again_of_b=twice)


def test_tool_calls_that_cannot_be_used() -> None:
    said = heard(ToyEngine(), ToyEngine())
    good, bad = [Calls(1, 0)] * 30, [Calls(1, 1)] * 15 + [Calls(0, 0)] * 15
    sizes = {e.name: e for e in effects(said, tolerance=0.02, calls=(good, bad))}
    assert sizes["unusable calls"].verdict is Verdict.BEYOND and sizes["unusable calls"].excess.value == 0.5
    assert sizes["calling"].verdict is Verdict.SHOWN and sizes["calling"].excess.value == -0.5


def test_greedy_answers_part_as_they_are_watched() -> None:
    parted = partings(heard(ToyEngine(), ToyEngine(moved=0.3)))
    shares = [p.share for p in parted]
    assert shares == sorted(shares) and shares[-1] > 0.5 and all(p.floor == 0 for p in parted)
    assert [p.ids for p in parted][:2] == [8, 16]


def test_too_few_prompts_say_how_many_would_tell() -> None:
    said = heard(ToyEngine(), ToyEngine(moved=0.1), prompts=8)
    excess = deciding(effects(said, tolerance=0.02)).excess
    within = (excess.value + excess.high) / 2
    few = compare(plan(8), said, SIDES, tolerance=within, calls=None, seconds=1.0)
    assert (few.verdict, few.passed) == (Verdict.UNDECIDED, False)
    assert "--samples" in few.advice and "prompts would tell" in few.advice
