"""The attention of a model, read off its ``config.json``: what each layer keeps of a token.

Everything that the arithmetic of a KV cache needs is a few groups of equal layers. MHA is GQA with as many KV heads as
heads; MLA keeps one latent of ``kv_lora_rank + qk_rope_head_dim`` elements, which is one KV head without values, so
that dividing heads over GPUs (never below one) replicates it, as the servers do.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_FULL, _WINDOW, _LINEAR = "full", "window", "linear"
_KINDS = {  # words of `layer_types` and its like
    **dict.fromkeys(("full_attention", "attention", "global", "*", "1"), _FULL),
    **dict.fromkeys(("sliding_attention", "chunked_attention", "local"), _WINDOW),
    **dict.fromkeys(("linear_attention", "mamba", "mamba2", "recurrent", "M", "0"), _LINEAR),
}
_NOTHING_KEPT = {"mlp", "moe", "-", "E"}  # layers of hybrids that are no attention at all
_PATTERNS = {
    "gemma2": 2,
    "gemma3_text": 6,
    "cohere2": 4,
}  # every so-manieth layer is full, where the config does not say so itself
_INNER = ("text_config", "llm_config", "language_config", "thinker_config")
_STATE, _CONV = 4, 2  # bytes: the servers keep the recurrent state in float32, the convolution's in the model's dtype


class Layers(msgspec.Struct, frozen=True):
    """``count`` layers that each keep ``kv_heads · (key + value)`` elements of a token.

    A ``window`` layer needs only the last so many tokens. ``index`` are bytes that a sparse-attention indexer keeps
    beside them, whatever the cache's dtype.
    """

    count: int
    kv_heads: int
    key: int
    value: int
    window: int | None = None
    index: int = 0

    def elements(self, tp: int = 1) -> int:
        """Elements a token a layer on each of ``tp`` GPUs; KV heads are never divided below one."""
        return max(1, self.kv_heads // tp) * (self.key + self.value)


class Shape(msgspec.Struct, frozen=True):
    """A model as its KV cache and its activations see it. ``layers`` counts all of them.

    ``linear`` layers keep a state of ``state`` bytes a sequence, all layers together, and nothing a token; None where
    the config does not tell. ``width`` is the widest MLP of a token (of one expert where there are ``experts``, of
    which ``chosen`` compute), ``expanded`` the elements of queries, keys, values and outputs of a token in one layer.
    """

    layers: int
    hidden: int
    vocab: int
    context: int
    heads: int
    kept: tuple[Layers, ...]
    linear: int = 0
    state: int | None = 0
    width: int = 0
    experts: int = 0
    chosen: int = 0
    expanded: int = 0
    mla: bool = False

    @property
    def windowed(self) -> bool:
        return any(group.window is not None for group in self.kept)


def of_config(config: Mapping[str, Any]) -> Shape:
    """The shape of a model from its ``config.json``. Raises ValueError naming the key that is missing or wrong."""
    c = next((config[name] for name in _INNER if isinstance(config.get(name), Mapping)), config)
    if not isinstance(c, Mapping):
        raise ValueError("is no mapping of keys to values")
    layers = _number(c, "num_hidden_layers", "n_layer", "num_layers")
    hidden = _number(c, "hidden_size", "n_embd", "d_model")
    heads = _number(c, "num_attention_heads", "n_head")
    mla = c.get("kv_lora_rank") is not None
    kinds = list(_kinds(c, layers))
    linear = kinds.count(_LINEAR)
    full, window = (kinds.count(kind) for kind in (_FULL, _WINDOW))
    kept = [_full(c, full, hidden, heads, mla)] if full else []
    if window:
        kept.append(_windowed(c, window, hidden, heads, mla))
    if not kept:
        raise ValueError("no layer keeps a KV cache")
    chosen = int(c.get("num_experts_per_tok") or c.get("num_experts_per_token") or c.get("moe_top_k") or 0)
    dense = int(c.get("intermediate_size") or 4 * hidden)
    return Shape(
        layers=layers,
        hidden=hidden,
        vocab=_number(c, "vocab_size"),
        context=int(c.get("max_position_embeddings") or c.get("n_positions") or c.get("seq_length") or 2048),
        heads=heads,
        kept=tuple(kept),
        linear=linear,
        state=_state(c, linear) if linear else 0,
        width=int(c.get("moe_intermediate_size") or dense) if chosen else dense,
        experts=next((int(c[k]) for k in ("n_routed_experts", "num_local_experts", "num_experts") if c.get(k)), 0),
        chosen=chosen,
        expanded=_expanded(c, hidden, heads, mla),
        mla=mla,
    )


def _number(c: Mapping[str, Any], *names: str) -> int:
    value = next((c[name] for name in names if c.get(name) is not None), None)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{names[0]}: {'is missing' if value is None else f'{value!r} is no count'}")
    return value


def _kinds(c: Mapping[str, Any], layers: int) -> Iterator[str]:
    """What each layer is: full, window or linear. Those that are no attention are left out."""
    listed = next((c[k] for k in ("layer_types", "layers_block_type", "attn_type_list") if c.get(k)), None)
    listed = listed or list(c.get("hybrid_override_pattern") or ())
    lined = c.get("linear_attn_config")
    if listed:
        for word in map(str, listed):
            if word not in _NOTHING_KEPT:
                if word not in _KINDS:
                    raise ValueError(f"layer_types: {word!r} is a kind of attention that is not known")
                yield _KINDS[word]
    elif isinstance(lined, Mapping) and lined.get("full_attn_layers"):
        full = len(lined["full_attn_layers"])
        yield from [_FULL] * full + [_LINEAR] * (layers - full)
    elif every := c.get("full_attention_interval"):
        yield from (_FULL if (i + 1) % every == 0 else _LINEAR for i in range(layers))
    elif c.get("sliding_window") and c.get("use_sliding_window") is not False:
        pattern = c.get("sliding_window_pattern") or c.get("_sliding_window_pattern")
        every = pattern or _PATTERNS.get(str(c.get("model_type")))
        yield from (_FULL if every and (i + 1) % every == 0 else _WINDOW for i in range(layers))
    else:
        yield from [_FULL] * layers


def _full(c: Mapping[str, Any], count: int, hidden: int, heads: int, mla: bool) -> Layers:
    if mla:
        index = c.get("index_head_dim") or 0  # an fp8 key and a float32 scale for each 128 of it
        latent = _number(c, "kv_lora_rank") + _number(c, "qk_rope_head_dim")
        return Layers(count, 1, latent, 0, index=index + index // 128 * 4)
    key = int(c.get("head_dim") or hidden // heads)
    return Layers(count, int(c.get("num_key_value_heads") or heads), key, int(c.get("v_head_dim") or key))


def _windowed(c: Mapping[str, Any], count: int, hidden: int, heads: int, mla: bool) -> Layers:
    same = _full(c, count, hidden, heads, mla)
    key = int(c.get("swa_head_dim") or same.key)
    return Layers(
        count,
        int(c.get("swa_num_key_value_heads") or same.kv_heads),
        key,
        int(c.get("swa_v_head_dim") or (same.value if key == same.key else key)),
        window=int(c.get("sliding_window") or c.get("attention_chunk_size") or 0) or None,
    )


def _state(c: Mapping[str, Any], linear: int) -> int | None:
    """Bytes that the linear layers keep of one sequence: the recurrent state and the convolution's last inputs."""
    if heads := c.get("linear_num_value_heads"):  # gated delta net: Qwen3-Next and its heirs
        key, value = c["linear_key_head_dim"], c["linear_value_head_dim"]
        inputs = 2 * c["linear_num_key_heads"] * key + heads * value
        return int(linear * (heads * key * value * _STATE + inputs * (c["linear_conv_kernel_dim"] - 1) * _CONV))
    if isinstance(own := c.get("linear_attn_config"), Mapping):  # Kimi delta attention: three convolutions
        width = own["num_heads"] * own["head_dim"]
        kernel = own["short_conv_kernel_size"]
        return int(linear * (width * own["head_dim"] * _STATE + 3 * width * (kernel - 1) * _CONV))
    return None


def _expanded(c: Mapping[str, Any], hidden: int, heads: int, mla: bool) -> int:
    if mla:
        query, value = _number(c, "qk_nope_head_dim") + _number(c, "qk_rope_head_dim"), _number(c, "v_head_dim")
        return heads * (2 * query + 2 * value)
    size = int(c.get("head_dim") or hidden // heads)
    return (2 * heads + 2 * int(c.get("num_key_value_heads") or heads)) * size
