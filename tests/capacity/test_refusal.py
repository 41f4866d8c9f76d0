"""Each refusal around the point where it flips: by its rule, not by one number."""

import re

import pytest

from draftmill.capacity import headroom, host, refusal
from draftmill.capacity.headroom import GIB
from draftmill.capacity.host import GB
from draftmill.capacity.kv import DTYPES, cell
from draftmill.capacity.pool import Memory
from draftmill.cli.app import app
from draftmill.recipe import EngineSpec, as_engine
from tests.capacity.models import shape

KIMI = shape("kimi-k2.5")
CARD, FREE = 95.59 * GIB, 94.04 * GIB
CELL = cell(KIMI, "bf16", tp=8)


@pytest.mark.parametrize(
    ("size", "ranks", "host_gb", "fits"),
    [
        (300, 8, 449, False),
        (48, 8, 449, True),
        (51, 8, 449, True),  # 408 and 40 for the processes
        (52, 8, 449, False),
        (51, 8, 448, True),
        (51, 8, 447, False),
        (300, 8, 2440, True),
        (300, 8, 2439, False),
        (400, 1, 449, True),
        (0, 8, 1, True),
        (1, 1, 5, False),  # 10 GiB stay for the rest of the machine
    ],
)
def test_hicache(size: float, ranks: int, host_gb: float, fits: bool) -> None:
    found = refusal.hicache(size, ranks, host_gb * GB)
    assert (found is None) == fits


def test_hicache_names_the_total_and_what_fits() -> None:
    found = refusal.hicache(300, 8, 449 * GB)
    assert found and "2,400 GB" in found.message and "at most hicache 51" in found.advice
    assert host.distinct_tokens(48, CELL) == 683_060
    assert host.in_all(48, 8) == 384 * GB
    assert refusal.hicache(48, 64, 300 * GB).advice == "leave hicache away: none fits"  # type: ignore[union-attr]
    assert host.of_ratio(2.0, 10 * GB) == 20


GRAPHS = 5.8 * GIB  # as observed
RECKONED = headroom.GRAPHS_SEEN * headroom.reckoned(CARD, tp=8, mla=True)


@pytest.mark.parametrize(
    ("fraction", "graphs", "fits"),
    [
        (0.85, GRAPHS, True),
        (0.88, GRAPHS, True),
        (0.917, GRAPHS, True),  # 94.04 · (1 − f) − 5.8 = 2 at f = 0.9171
        (0.918, GRAPHS, False),
        (0.93, GRAPHS, False),
        (0.88, RECKONED, True),
        (0.93, RECKONED, False),
        (0.99, RECKONED, False),
    ],
)
def test_headroom(fraction: float, graphs: float, fits: bool) -> None:
    needed = headroom.peak(KIMI, tokens=8192, requests=150, tp=8)
    assert needed == 2 * GIB
    assert (refusal.headroom(FREE, fraction, graphs, needed, 150) is None) == fits


def test_headroom_names_what_would_do() -> None:
    found = refusal.headroom(FREE, 0.93, GRAPHS, 2 * GIB, 150)
    assert found and "0.78 GiB" in found.message and "150 requests" in found.message and "0.91" in found.advice
    assert refusal.headroom(FREE, 0.91, GRAPHS, 2 * GIB, 150) is None


def test_what_is_reckoned_is_near_what_was_seen() -> None:
    assert abs(RECKONED / GIB - 5.8) < 0.3


@pytest.mark.parametrize(
    ("tokens", "requests", "above"), [(1024, 1, False), (8192, 150, False), (16_384, 150, True), (8192, 2000, True)]
)
def test_the_peak_of_a_prefill(tokens: int, requests: int, above: bool) -> None:
    """Kimi on eight GPUs, 8,192 tokens: 8,192 · (3 · 7,168 + 8 · (3 · 2,048 / 8 + 7,168)) · 2 = 1.3 GiB, and logits."""
    peak = headroom.peak(KIMI, tokens=tokens, requests=requests, tp=8)
    by_hand = tokens * (3 * 7168 + 8 * (3 * 2048 / 8 + 7168)) * 2 + requests * 163_840 * 8
    assert peak == max(2 * GIB, by_hand)
    assert (peak > 2 * GIB) == above


@pytest.mark.parametrize(
    ("loaded", "fraction", "fits"),
    [(72.33, 0.76, False), (72.33, 0.769, False), (72.33, 0.7692, True), (72.33, 0.85, True), (90, 0.88, False)],
)
def test_no_pool(loaded: float, fraction: float, fits: bool) -> None:
    found = refusal.no_pool(Memory(FREE, loaded * GIB), fraction, given=True)
    assert (found is None) == fits
    assert found is None or "no KV cache at all" in found.message


def test_the_default_fraction() -> None:
    """512 + 1.5 · 8,192 + 2 · 512 + 1,536 + 8 · 128 MiB of 97,884; an H200 alone has smaller graphs."""
    assert headroom.default_fraction(CARD, tp=8, mla=True) == round(1 - 16_384 / (95.59 * 1024), 3)
    found = refusal.no_pool(Memory(FREE, 80 * GIB), headroom.default_fraction(CARD, tp=8, mla=True), given=False)
    assert found and "default fraction" in found.message
    assert headroom.default_fraction(139.8 * GIB, tp=1) == round(1 - 13_904 / (139.8 * 1024), 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantised(dtype: str) -> None:
    found = refusal.quantised(dtype)
    assert (found is None) == (dtype in ("f32", "bf16", "f16"))
    assert found is None or "compare" in found.advice


@pytest.mark.parametrize(
    ("limit", "tokens", "context", "fits"),
    [
        (10_240, 159_277, 262_144, True),
        (4090, 8000, 4096, True),
        (4091, 8000, 4096, False),
        (4096, 4102, 262_144, True),
        (4096, 4101, 262_144, False),
        (16_384, 0, 262_144, False),
    ],
)
def test_token_limit(limit: int, tokens: int, context: int, fits: bool) -> None:
    assert (refusal.token_limit("long", limit, tokens, context) is None) == fits


@pytest.mark.parametrize(
    ("longest", "tokens", "context", "what"),
    [
        (4089, 8000, 4096, None),
        (4090, 8000, 4096, "context"),
        (4089, 4096, 8000, None),
        (4090, 4096, 8000, "KV cache"),
    ],
)
def test_longest_prompt(longest: int, tokens: int, context: int, what: str | None) -> None:
    found = refusal.prompt(longest, "a:1", tokens, context)
    assert (found is None) == (what is None)
    assert found is None or (what in found.message and "a:1" in found.message)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("algorithm", "eagle3", "fits"),
    [("EAGLE3", True, True), ("EAGLE", True, False), ("EAGLE", False, True), (None, False, True)],
)
def test_drafter_flag(algorithm: str | None, eagle3: bool, fits: bool) -> None:
    assert (refusal.drafter_flag(algorithm, eagle3) is None) == fits


@pytest.mark.parametrize("dtype", ["fp8", "fp4", "q8_0", "q4_0"])
def test_a_quantised_cache_leads_to_a_command_that_there_is(dtype: str) -> None:
    """What `plan` advises is parsed as a user would type it."""
    found = refusal.quantised(dtype)
    assert found
    command = re.search(r"`draftmill (compare .*?)`", found.advice)
    assert command
    words = [word.replace("URL_", "http://") for word in command[1].split()]
    verb, *sides = words
    assert verb in [command.callback.__name__ for command in app.registered_commands if command.callback]
    for side in sides:
        EngineSpec.model_validate(as_engine(side))
