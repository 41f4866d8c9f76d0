"""A model's own files."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy
import pytest

from draftmill.errors import UsageFault
from draftmill.plan.model import read_drafter, read_model
from tests.capacity import models


def safetensors(path: Path, **shapes: list[int]) -> None:
    header = json.dumps({n: {"dtype": "BF16", "shape": s, "data_offsets": [0, 0]} for n, s in shapes.items()}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)


def folder(path: Path, config: dict[str, Any]) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


def test_the_index_or_the_headers(tmp_path: Path) -> None:
    name = folder(tmp_path / "m", models.config("smollm2-135m"))
    assert read_model(name).bytes is None
    safetensors(tmp_path / "m" / "model-1.safetensors", a=[10, 20])
    safetensors(tmp_path / "m" / "model-2.safetensors", b=[5])
    assert read_model(name).bytes == 2 * (200 + 5)
    (tmp_path / "m" / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 7}}')
    assert read_model(name).bytes == 7
    (tmp_path / "m" / "model.safetensors.index.json").write_text('{"metadata": {}}')
    assert read_model(name).bytes == 410


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "cannot be read"), ("[]", "no JSON object"), ("{}", "config.json: num_hidden_layers: is missing")],
)
def test_a_config_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageFault, match=said):
        read_model(str(tmp_path))


def test_no_config_and_no_weights(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match=r"no config\.json"):
        read_model(str(tmp_path))
    name = folder(tmp_path / "m", models.config("smollm2-135m"))
    (tmp_path / "m" / "a.safetensors").write_bytes(b"torn")
    with pytest.raises(UsageFault, match=r"a\.safetensors: is no safetensors"):
        read_model(name)


def test_a_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(30)
    writer.add_embedding_length(576)
    writer.add_feed_forward_length(1536)
    writer.add_head_count(9)
    writer.add_head_count_kv(3)
    writer.add_context_length(8192)
    writer.add_vocab_size(49_152)
    writer.add_tensor("a", numpy.zeros(4, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = read_model(str(path))
    assert found.shape == models.shape("smollm2-135m")
    assert found.bytes == path.stat().st_size
    path.write_bytes(b"GGUF")
    with pytest.raises(UsageFault, match="no GGUF file"):
        read_model(str(path))


@pytest.mark.parametrize(
    ("config", "layers", "eagle3"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}, 1, True),
        ({"architectures": ["LlamaForCausalLMEagle"], "num_hidden_layers": 2}, 2, False),
        ({"speculators_model_type": "eagle3", "transformer_layer_config": {"num_hidden_layers": 1}}, 1, True),
    ],
)
def test_drafters(tmp_path: Path, config: dict[str, Any], layers: int, eagle3: bool) -> None:
    found = read_drafter(folder(tmp_path / "d", config))
    assert (found.layers, found.eagle3) == (layers, eagle3)


def test_a_drafter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match=r"no config\.json of a drafter"):
        read_drafter(str(tmp_path))
