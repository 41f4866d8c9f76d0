"""What is read off the configs of known models, and what is said of one that cannot be read."""

from typing import Any

import pytest

from draftmill.capacity.kv import whole
from draftmill.capacity.shape import of_config
from tests.capacity.models import config, shape

# KV bytes a token in bf16: (KV heads) · (key + value) · layers · 2, by hand
BY_HAND = {
    "llama-3-8b": 8 * (128 + 128) * 32 * 2,  # 131,072; head_dim = 4096 / 32
    "llama-3-70b": 8 * (128 + 128) * 80 * 2,  # 327,680
    "qwen3-32b": 8 * (128 + 128) * 64 * 2,  # 262,144; head_dim is given, 5120 / 64 would be 80
    "qwen3-235b-a22b": 4 * (128 + 128) * 94 * 2,  # 192,512
    "deepseek-v3": (512 + 64) * 61 * 2,  # 70,272: one latent and one rotary key, whatever the heads
    "kimi-k2.5": (512 + 64) * 61 * 2,  # 70,272; the language model stands in text_config
    "gemma-3-27b": 16 * (128 + 128) * (10 + 52) * 2,  # 507,904 within the window: every sixth of 62 layers is full
    "gpt-oss-120b": 8 * (64 + 64) * (18 + 18) * 2,  # 73,728 within the window
    "qwen3-next-80b-a3b": 2 * (256 + 256) * 12 * 2,  # 24,576: every fourth of 48 layers keeps tokens
    "glm-4.5": 8 * (128 + 128) * 92 * 2,  # 376,832
    "mixtral-8x7b": 8 * (128 + 128) * 32 * 2,  # 131,072
    "smollm2-135m": 3 * (64 + 64) * 30 * 2,  # 23,040; head_dim = 576 / 9
}
TOLD = (131_072, 327_680, 262_144, 192_512, 70_272, 70_272, 507_904, 73_728, 24_576, 376_832, 131_072, 23_040)


@pytest.mark.parametrize(("name", "told"), list(zip(BY_HAND, TOLD, strict=True)))
def test_bytes_a_token(name: str, told: int) -> None:
    assert whole(shape(name), "bf16") == BY_HAND[name] == told


@pytest.mark.parametrize(
    ("name", "full"),
    [("gemma-3-27b", 16 * 256 * 10 * 2), ("gpt-oss-120b", 8 * 128 * 18 * 2), ("llama-3-8b", 131_072)],
)
def test_beyond_the_window_only_full_layers_keep(name: str, full: int) -> None:
    assert whole(shape(name), "bf16", windows=False) == full


def test_layers_of_each_kind() -> None:
    gemma, oss, following = shape("gemma-3-27b"), shape("gpt-oss-120b"), shape("qwen3-next-80b-a3b")
    assert [(g.count, g.window) for g in gemma.kept] == [(10, None), (52, 1024)]
    assert [(g.count, g.window) for g in oss.kept] == [(18, None), (18, 128)]
    assert [(g.count, g.window) for g in following.kept] == [(12, None)]
    assert following.linear == 36


def test_the_state_of_linear_layers() -> None:
    recurrent = 32 * 128 * 128 * 4  # value heads, key and value size, float32
    convolution = (2 * 16 * 128 + 32 * 128) * 3 * 2  # its inputs, the last three of them, bf16
    assert shape("qwen3-next-80b-a3b").state == 36 * (recurrent + convolution) == 77_266_944


LLAMA = config("llama-3-8b")


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"sliding_window": 4096}, [(32, 4096)]),  # Mistral's first: all layers
        ({"sliding_window": 4096, "use_sliding_window": False}, [(32, None)]),
        ({"sliding_window": 4096, "model_type": "gemma2"}, [(16, None), (16, 4096)]),
        ({"attn_type_list": [0] * 28 + [1] * 4}, [(4, None)]),
        ({"hybrid_override_pattern": "M-M*-M*"}, [(2, None)]),
        ({"layers_block_type": ["mamba"] * 30 + ["attention"] * 2}, [(2, None)]),
    ],
)
def test_how_configs_name_their_kinds(changes: dict[str, Any], kept: list[tuple[int, int | None]]) -> None:
    assert [(g.count, g.window) for g in of_config(LLAMA | changes).kept] == kept


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers: is missing"),
        ({"hidden_size": "big"}, "hidden_size: 'big' is no count"),
        ({"layer_types": ["full_attention", "quantum"]}, "'quantum' is a kind of attention that is not known"),
        ({"layer_types": ["mamba"] * 32}, "no layer keeps a KV cache"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim: is missing"),
    ],
)
def test_what_cannot_be_read_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        of_config(LLAMA | changes)
