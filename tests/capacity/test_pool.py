"""Tokens of a pool, forecast from what the reference run and others reported."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.capacity.headroom import GIB
from draftmill.capacity.kv import cell
from draftmill.capacity.pool import (
    Memory,
    Start,
    calibrate,
    llamacpp_context,
    longest_prompt,
    max_running,
    shared_with_states,
    vllm_tokens,
)
from tests.capacity.models import shape

KIMI = cell(shape("kimi-k2.5"), "bf16", tp=8)
KIMI_FP8 = cell(shape("kimi-k2.5"), "fp8", tp=8)
SEEN = {0.85: 116_171, 0.88: 159_277, 0.93: 231_120}
FREE = 94.04 * GIB


def test_two_starts_of_the_reference_run_give_the_other_two() -> None:
    memory = calibrate([Start(f, SEEN[f], float(KIMI)) for f in (0.85, 0.93)])
    assert abs(memory.tokens(0.88, KIMI) - 159_277) <= 1
    assert abs(memory.tokens(0.90, KIMI_FP8) - 376_029) <= 3
    assert memory.free / GIB == pytest.approx(94.04, abs=0.01)
    assert memory.loaded / GIB == pytest.approx(72.33, abs=0.01)


@pytest.mark.parametrize("seen", SEEN)
def test_one_start_and_the_free_memory_give_the_others(seen: float) -> None:
    memory = calibrate([Start(seen, SEEN[seen], float(KIMI))], free=FREE)
    for fraction, tokens in SEEN.items():
        assert memory.tokens(fraction, KIMI) == pytest.approx(tokens, rel=0.001)
    assert memory.tokens(0.90, KIMI_FP8) == pytest.approx(376_029, rel=0.001)


def test_starts_of_two_dtypes_calibrate_together() -> None:
    memory = calibrate([Start(0.85, 116_171, float(KIMI)), Start(0.90, 376_029, float(KIMI_FP8))])
    assert abs(memory.tokens(0.93, KIMI) - 231_120) <= 2
    assert calibrate([Start(f, t, float(KIMI)) for f, t in SEEN.items()]).tokens(0.88, KIMI) == 159_277


@pytest.mark.parametrize(("a", "b"), list(combinations(SEEN, 2)))
def test_any_two_starts_fit_both(a: float, b: float) -> None:
    memory = calibrate([Start(f, SEEN[f], float(KIMI)) for f in (a, b)])
    assert [memory.tokens(f, KIMI) for f in (a, b)] == [SEEN[a], SEEN[b]]


@given(
    free=st.floats(20, 180),
    loaded=st.floats(0.01, 0.7),
    fractions=st.lists(st.integers(75, 97), min_size=3, max_size=3, unique=True),
    page=st.sampled_from([1, 16, 64]),
)
def test_two_starts_give_any_third(free: float, loaded: float, fractions: list[int], page: int) -> None:
    """Between the two within a page or so, beyond them by as much more as it lies farther away."""
    first, second, asked = (f / 100 for f in fractions)
    truth = Memory(free * GIB, loaded * free * GIB)
    starts = [Start(f, truth.tokens(f, KIMI, page), float(KIMI), page) for f in (first, second)]
    stretch = 1 + abs(asked - (first + second) / 2) / abs(first - second)
    found = calibrate(starts).tokens(asked, KIMI, page)
    assert abs(found - truth.tokens(asked, KIMI, page)) <= page * (1 + stretch)


def test_what_does_not_determine_a_memory() -> None:
    with pytest.raises(ValueError, match="second start at another fraction"):
        calibrate([Start(0.85, 1000, 1.0), Start(0.85, 1000, 1.0)])
    with pytest.raises(ValueError, match="contradict"):
        calibrate([Start(0.85, 2000, 1.0), Start(0.93, 1000, 1.0)])
    with pytest.raises(ValueError, match="no start"):
        calibrate([], free=FREE)


def test_pages_and_nothing_left() -> None:
    assert Memory(1000.0, 0.0).tokens(0.5, Fraction(3), page=16) == 160
    assert Memory(1000.0, 900.0).tokens(0.85, Fraction(3)) == 0
    assert Memory(1000.0, 800.0).least() == 0.8


def test_states_take_their_share_first() -> None:
    assert shared_with_states(1900.0) == (pytest.approx(1000.0), pytest.approx(900.0))


@pytest.mark.parametrize(
    ("name", "pool", "context", "tokens"),
    [
        ("llama-3-8b", GIB, 4096, 8192),  # 2^30 / 131,072
        ("llama-3-8b", 1.5 * GIB, 4096, 12_288),
        ("smollm2-135m", GIB, 2048, 46_592),  # 46,603 tokens in whole blocks of 16
        # 10 layers a group: 1 full and 6 window groups; a context of 1,024 is one window long: 64 and 6 · 65 blocks
        ("gemma-3-27b", 8192 * 16 * 10 * 454, 1024, 1024),
    ],
)
def test_vllm(name: str, pool: float, context: int, tokens: int) -> None:
    assert vllm_tokens(shape(name), "bf16", pool, context=context) == tokens


def test_llamacpp_divides_its_context_over_the_slots() -> None:
    assert llamacpp_context(2048, 8) == 16_384
    assert llamacpp_context(2000, 8) == 16_384
    assert llamacpp_context(257, 1) == 512


def test_sglangs_own_limits() -> None:
    assert max_running(159_277, 262_144) == 2048
    assert max_running(1_000_000, 131_072) == 3906
    assert max_running(3000, 262_144) == 1500
    assert longest_prompt(159_277, 262_144) == 159_271
