"""The cell: what a token takes on each GPU."""

from fractions import Fraction

import pytest

from draftmill.capacity.kv import DTYPES, cell, of_sequence, whole
from tests.capacity.models import shape


@pytest.mark.parametrize(
    ("name", "dtype", "tp", "pp", "bytes"),
    [
        ("kimi-k2.5", "bf16", 1, 1, 70_272),
        ("kimi-k2.5", "bf16", 8, 1, 70_272),  # MLA is replicated
        ("kimi-k2.5", "fp8", 8, 1, 35_136),
        ("kimi-k2.5", "fp4", 8, 1, 70_272 // 4 + 61 * 576 // 16),  # and a scale for each 16 elements
        ("llama-3-70b", "bf16", 4, 1, 327_680 // 4),
        ("llama-3-70b", "bf16", 16, 1, 327_680 // 8),  # no KV head is divided
        ("llama-3-70b", "bf16", 4, 2, 327_680 // 8),
        ("kimi-k2.5", "bf16", 1, 8, 8 * 576 * 2),  # 61 layers on 8 stages: the fullest has 8
        ("smollm2-135m", "q8_0", 1, 1, 23_040 // 2 * 34 // 32),
        ("gemma-3-27b", "bf16", 1, 1, 8192 * (10 + Fraction(8, 10) * 52)),  # the window pool is 0.8 of the full one
        ("qwen3-next-80b-a3b", "bf16", 2, 1, 24_576 // 2),
    ],
)
def test_cell(name: str, dtype: str, tp: int, pp: int, bytes: int) -> None:
    assert cell(shape(name), dtype, tp=tp, pp=pp) == bytes


def test_a_drafter_adds_its_share_of_the_layers() -> None:
    assert cell(shape("kimi-k2.5"), "bf16", tp=8, draft_layers=1) == 70_272 + 1152


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sequence_within_the_window_holds_the_whole_of_each_token(dtype: str) -> None:
    gemma = shape("gemma-3-27b")
    assert of_sequence(gemma, dtype, 1000) == pytest.approx(1000 * whole(gemma, dtype), abs=1)


def test_a_long_sequence_holds_windows_and_states() -> None:
    assert of_sequence(shape("gemma-3-27b"), "bf16", 10_000) == 8192 * (10 * 10_000 + 52 * 1024)
    assert of_sequence(shape("qwen3-next-80b-a3b"), "bf16", 1000) == 24_576_000 + 77_266_944
