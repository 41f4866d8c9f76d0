"""A model in another type: made once, of what it says, and never half."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from draftmill.engines.retype import retyped
from draftmill.errors import SetupFault


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAFTMILL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(0)
    writer.add_string("tokenizer.ggml.model", "gpt2")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_tensor("blk.0.attn_q.weight", np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32))
    writer.add_tensor("blk.0.attn_norm.weight", np.arange(64, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors(path: Path) -> dict[str, tuple[str, np.ndarray]]:
    found = {t.name: t for t in gguf.GGUFReader(path).tensors}
    return {n: (t.tensor_type.name, gguf.dequantize(t.data, t.tensor_type)) for n, t in found.items()}


@pytest.mark.parametrize(("kind", "error"), [("q8_0", 0.02), ("q5_1", 0.2), ("q4_0", 0.5)])
def test_matrices_in_another_type_and_norms_as_they_are(model: Path, kind: str, error: float) -> None:
    made, before = tensors(retyped(model, kind)), tensors(model)
    matrix, norm = "blk.0.attn_q.weight", "blk.0.attn_norm.weight"
    assert made[matrix][0] == kind.upper() and made[norm][0] == "F32"
    assert (made[norm][1] == before[norm][1]).all()
    assert 0 < abs(made[matrix][1] - before[matrix][1]).max() < error
    fields = gguf.GGUFReader(retyped(model, kind)).fields
    assert fields["tokenizer.ggml.tokens"].contents() == ["a", "b"]
    assert fields["general.file_type"].contents() == gguf.LlamaFileType[f"MOSTLY_{kind.upper()}"]


def test_it_is_made_once_and_again_for_another_file(model: Path) -> None:
    first = retyped(model, "q8_0")
    made = first.stat().st_mtime_ns
    assert retyped(model, "Q8_0") == first and first.stat().st_mtime_ns == made
    other = model.with_name("other.gguf")
    other.write_bytes(model.read_bytes())
    assert retyped(other, "q8_0") != first
    assert not list(first.parent.glob("*.part"))


def test_what_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTMILL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and so on, at length, without being one")
    with pytest.raises(SetupFault, match=r"bad\.gguf: cannot be made q8_0"):
        retyped(tmp_path / "bad.gguf", "q8_0")
    assert not list((tmp_path / "cache").glob("*.gguf"))
