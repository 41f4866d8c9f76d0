"""What the model's own files say: its shape, its weights, and whether a drafter is one of EAGLE-3."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from draftmill.capacity import weights
from draftmill.capacity.shape import Shape, of_config
from draftmill.errors import UsageFault

_INDEX = "model.safetensors.index.json"
_HAND = "name a directory with the model's config.json in `model:`"


class Model(msgspec.Struct, frozen=True):
    """``bytes`` of all weights, None where nothing says so; ``why`` says where that comes from."""

    name: str
    shape: Shape
    bytes: int | None
    why: str


class Drafter(msgspec.Struct, frozen=True):
    """A drafter: how many layers it adds to the KV cache, its weights, and whether it takes three hidden states."""

    name: str
    layers: int
    eagle3: bool
    bytes: int = 0


def read_model(name: str) -> Model:
    """A directory, a GGUF file or a hub id. Raises UsageFault."""
    path = Path(name)
    if name.endswith(".gguf"):
        return Model(name, _shape(_gguf_config(path), name), path.stat().st_size, "the file's size")
    config, index = (
        (_json(path / "config.json"), _json(path / _INDEX)) if path.is_dir() else (_hub(name, "config.json"), None)
    )
    if config is None:
        raise UsageFault(f"{name}: there is no config.json, which says what its attention keeps", _HAND)
    shape = _shape(config, name)
    if not path.is_dir():
        index = _hub(name, _INDEX)
    if index is not None:
        try:
            return Model(name, shape, weights.of_index(index), "the safetensors index")
        except ValueError:
            pass
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else []
    return Model(name, shape, sum(map(_tensors, files)) or None, "the safetensors headers")


def read_drafter(name: str) -> Drafter:
    """A drafter's directory. Raises UsageFault."""
    config = _json(Path(name) / "config.json")
    if config is None:
        raise UsageFault(f"{name}: there is no config.json of a drafter", "name the drafter's directory")
    inner = config.get("transformer_layer_config")
    layers = config.get("num_hidden_layers") or (inner or {}).get("num_hidden_layers") or 1
    said = json.dumps([config.get("architectures"), config.get("speculators_model_type")]).lower()
    files = sorted(Path(name).glob("*.safetensors"))
    return Drafter(name, int(layers), "eagle3" in said or "draft_vocab_size" in config, sum(map(_tensors, files)))


def _shape(config: Mapping[str, Any], name: str) -> Shape:
    try:
        return of_config(config)
    except (ValueError, TypeError, KeyError) as error:
        raise UsageFault(f"{name}: config.json: {error}", _HAND) from None


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageFault(f"{path}: cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise UsageFault(f"{path}: is no JSON object")
    return found


def _tensors(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return weights.of_header(file.read(weights.header_length(file.read(weights.LENGTH))))
    except ValueError as error:
        raise UsageFault(f"{path}: {error}") from None


def _hub(name: str, file: str) -> dict[str, Any] | None:
    from huggingface_hub import hf_hub_download

    try:
        return _json(Path(hf_hub_download(name, file)))
    except UsageFault:
        raise
    except Exception as error:  # the library raises its own, httpx's and bare ones
        if file == _INDEX:
            return None
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageFault(f"{name}: its {file} cannot be had from the hub: {first}", _HAND) from None


def _gguf_config(path: Path) -> dict[str, Any]:
    """The keys of a config.json, out of a GGUF file's metadata."""
    from gguf import GGUFReader

    from draftmill.render.gguf import damage

    try:
        fields = GGUFReader(path).fields
        family = fields["general.architecture"].contents()
        named = {
            key.removeprefix(f"{family}."): field.contents() for key, field in fields.items() if key.startswith(family)
        }
        vocab = named.get("vocab_size") or len(fields["tokenizer.ggml.tokens"].data)
    except Exception as error:  # the reader raises bare exceptions for files that are none
        raise UsageFault(f"{path}: is no GGUF file that can be read: {damage(error)}") from None
    names = {
        "num_hidden_layers": "block_count",
        "hidden_size": "embedding_length",
        "intermediate_size": "feed_forward_length",
        "num_attention_heads": "attention.head_count",
        "num_key_value_heads": "attention.head_count_kv",
        "head_dim": "attention.key_length",
        "v_head_dim": "attention.value_length",
        "max_position_embeddings": "context_length",
        "sliding_window": "attention.sliding_window",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
    }
    if named.get("attention.kv_lora_rank"):
        names |= {"kv_lora_rank": "attention.kv_lora_rank", "qk_rope_head_dim": "rope.dimension_count"}
        names |= {"qk_nope_head_dim": "attention.key_length_mla", "v_head_dim": "attention.value_length_mla"}
    config = {name: _one(named[key]) for name, key in names.items() if named.get(key)}
    return config | {"vocab_size": vocab, "model_type": family}


def _one(value: Any) -> Any:
    """A figure that may be given for each layer: the largest."""
    return max(value) if isinstance(value, list) else value
