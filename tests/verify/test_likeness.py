"""Whose rows are whose: every verdict on a model whose distributions are known exactly."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftmill.engines.protocol import Identity
from draftmill.engines.voice import Passage, Recorded, Voice, hear
from draftmill.recipe import Sampling
from draftmill.verify.likeness import Judged, Makers, Verdict, coarser, judge
from draftmill.verify.replay import Asked, replay
from draftmill.verify.tally import Tally
from tests.verify.bigrams import VOCABULARY, Bigrams

PLAIN, GREEDY = Sampling(), Sampling(temperature=0.0)
SAMPLERS = {
    "plain": PLAIN,
    "cool": Sampling(temperature=0.6),
    "hot": Sampling(temperature=1.5),
    "nucleus": Sampling(temperature=0.7, top_p=0.8),
    "wide nucleus": Sampling(top_p=0.99),
    "top-k": Sampling(top_k=5),
    "wide top-k": Sampling(top_k=50),
    "min-p": Sampling(temperature=1.2, min_p=0.1),
    "greedy": GREEDY,
}
MODEL = Bigrams()


def judged(rows: Sequence[Asked], engine: Bigrams = MODEL) -> tuple[Judged, dict[str, int]]:
    tally = Tally(rows=len(rows))
    found = asyncio.run(replay(engine, rows, (), VOCABULARY))
    return judge(found, {"chat": tally}, None, Makers()), tally.found


@pytest.mark.parametrize("sampling", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("seed", range(2))
def test_rows_of_the_same_model_are_its_own(sampling: Sampling, seed: int) -> None:
    verdict, found = judged(MODEL.rows(sampling, seed))
    assert (verdict.verdict, found) == (Verdict.SAME, {}), verdict.figures


@pytest.mark.parametrize(
    ("told", "true", "checks"),
    [
        (PLAIN, Sampling(temperature=2.0), {"replay-likelihood", "replay-unlisted", "replay-row"}),
        (PLAIN, Sampling(temperature=1.3), {"replay-likelihood"}),
        (PLAIN, Sampling(temperature=0.7), {"replay-likelihood"}),
        (PLAIN, Sampling(top_p=0.8), {"replay-unlisted"}),
        (PLAIN, GREEDY, {"replay-likelihood", "replay-unlisted", "replay-row"}),
        (Sampling(temperature=0.6), PLAIN, {"replay-likelihood"}),
        (Sampling(temperature=0.7, top_p=0.8), Sampling(temperature=0.7), {"replay-cut"}),
        (Sampling(top_k=5), PLAIN, {"replay-cut"}),
        (Sampling(min_p=0.1), PLAIN, {"replay-cut", "replay-row"}),
        (GREEDY, PLAIN, {"replay-greedy", "replay-row"}),
    ],
)
def test_another_sampler_is_told(told: Sampling, true: Sampling, checks: set[str]) -> None:
    rows = [replace(row, sampling=told) for row in MODEL.rows(true)]
    verdict, found = judged(rows)
    assert checks <= found.keys(), (found, verdict.figures)
    assert verdict.verdict is Verdict.OTHER


@pytest.mark.parametrize("sampling", [PLAIN, GREEDY, SAMPLERS["nucleus"]], ids=["plain", "greedy", "nucleus"])
def test_another_model_is_told(sampling: Sampling) -> None:
    verdict, found = judged(Bigrams(seed=1).rows(sampling))
    assert verdict.verdict is Verdict.OTHER and "replay-row" in found


def test_another_prompt_is_told_by_the_first_id_alone_only_in_many_rows() -> None:
    """Here only the first id of an answer depends on the prompt."""
    rows = [replace(row, prompt=[1, 2, 3 + row.row % 7]) for row in MODEL.rows(PLAIN, number=200, length=2)]
    assert judged(rows)[0].verdict is Verdict.OTHER


def test_a_few_rows_of_another_sampler_are_told_one_by_one() -> None:
    strange = {4, 17}
    rows = MODEL.rows(PLAIN)
    rows = [replace(row, answer=MODEL.rows(GREEDY)[row.row].answer) if row.row in strange else row for row in rows]
    verdict, found = judged(rows)
    assert (found["replay-row"], verdict.verdict) == (2, Verdict.OTHER)


@pytest.mark.parametrize(
    ("moved", "verdict"), [(0.02, Verdict.COARSER), (0.1, Verdict.COARSER), (1.0, Verdict.OTHER), (3.0, Verdict.OTHER)]
)
def test_greedy_rows_tell_precision(moved: float, verdict: Verdict) -> None:
    found, fired = judged(Bigrams(moved=moved).rows(GREEDY, number=60))
    assert found.verdict is verdict, found.figures
    assert ("replay-precision" in fired) is (verdict is Verdict.COARSER)


def test_sampled_rows_tell_no_precision_and_it_is_said_how_much_they_would_tell() -> None:
    verdict, found = judged(Bigrams(moved=0.1).rows(PLAIN))
    assert (verdict.verdict, found) == (Verdict.SAME, {})
    assert verdict.resolution and 0.05 < verdict.resolution < 0.3


def test_a_greedy_answer_is_generated_again_and_where_it_parts_is_told() -> None:
    rows = Bigrams(moved=0.3).rows(GREEDY, number=20)
    heard = asyncio.run(replay(MODEL, rows, (), VOCABULARY)).heard
    parted = [one for one in heard if one.parting]
    assert parted
    for one in parted:
        assert one.parting
        again = MODEL.answer(one.asked.prompt[-1], GREEDY, len(one.asked.answer), None)  # type: ignore[arg-type]
        at = next(n for n, (a, b) in enumerate(zip(one.asked.answer, again, strict=True)) if a != b)
        before = [*one.asked.prompt, *one.asked.answer][len(one.asked.prompt) + at - 1]
        assert (one.parting.at, one.parting.again) == (at, again[at])
        assert one.parting.gap == pytest.approx(
            MODEL.logs[before].max() - MODEL.logs[before, one.asked.answer[at]], abs=1e-4
        )


def test_too_few_ids_say_nothing() -> None:
    assert judged(MODEL.rows(PLAIN, number=2, length=20))[0].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("recorded", "weights", "kv_dtype", "coarse"),
    [
        ({"weights": "Q4_1"}, None, None, True),
        ({"weights": "Q4_1"}, "Q4_1", None, False),
        ({"weights": "F32"}, None, None, False),
        ({"weights": "default"}, None, None, False),
        ({"kv_dtype": "fp8_e5m2"}, None, "auto", True),
        ({"kv_dtype": "auto"}, None, "fp8_e4m3", False),
        ({"weights": "IQ3_XS"}, "F16", None, True),
    ],
)
def test_what_a_runs_engines_said_of_their_precision_counts(
    recorded: dict[str, str], weights: str | None, kv_dtype: str | None, coarse: bool
) -> None:
    """Sampled ids cannot show it."""
    said = Identity(kind="llamacpp", name="embedded", **recorded)  # type: ignore[arg-type]
    engine = Identity(kind="vllm", name="here", weights=weights, kv_dtype=kv_dtype)
    assert bool(coarser([said], engine)) is coarse
    found = replace(asyncio.run(replay(MODEL, MODEL.rows(PLAIN), (), VOCABULARY)), engine=engine)
    tally = Tally(rows=30)
    verdict = judge(found, {"chat": tally}, None, Makers([said])).verdict
    assert verdict is (Verdict.COARSER if coarse else Verdict.SAME)
    assert ("replay-precision" in tally.found) is coarse


@pytest.mark.parametrize(("moved", "verdict"), [(0.0, Verdict.SAME), (0.02, Verdict.SAME), (0.1, Verdict.COARSER)])
def test_what_a_runs_engine_said_at_its_start_tells_precision_of_sampled_rows(moved: float, verdict: Verdict) -> None:
    """What the same ids are given is no matter of chance."""
    passages = [Passage([n, *range(3, 40)], 1) for n in range(3, 6)]
    there = Bigrams(moved=moved)
    voices = [asyncio.run(hear(there, passages))]
    rows = there.rows(PLAIN)
    found = asyncio.run(replay(MODEL, rows, (), VOCABULARY, passages=passages))
    tally = Tally(rows=len(rows))
    done = judge(found, {"chat": tally}, None, Makers(recorded=Recorded(passages, voices), tolerance=0.06))
    assert done.verdict is verdict
    assert ("replay-precision" in tally.found) is (verdict is Verdict.COARSER)
    (words,) = done.figures["the run"]
    assert words.startswith(f"{there.name} was ") and " nats from this engine on 111 ids at a start" in words
    assert words.endswith("above 0.06" if verdict is Verdict.COARSER else "within 0.06")


def test_the_farthest_of_an_engines_starts_counts() -> None:
    passages = [Passage([3, 4, 5], 1)]
    said = asyncio.run(hear(MODEL, passages)).said
    voices = [Voice("a", said), Voice("a", tuple(value - 0.1 for value in said)), Voice("b", said)]
    found = asyncio.run(replay(MODEL, MODEL.rows(PLAIN), (), VOCABULARY, passages=passages))
    done = judge(found, {"chat": Tally()}, None, Makers(recorded=Recorded(passages, voices), tolerance=0.06))
    assert [words.split(" nats")[0][-8:] for words in done.figures["the run"]] == ["s 0.1000", "s 0.0000"]
