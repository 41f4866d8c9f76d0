"""The target's tokenizer: from a Hugging Face directory, a hub id, or a GGUF file. Never needs torch."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from draftmill.errors import RenderError
from draftmill.render.gguf import gguf_stop_ids, load_gguf_tokenizer


class Tokenizer:
    """Texts to ids and back, and what the tokenizer's own files say about special tokens.

    ``stop_ids`` are the ids that the model's files name as ends of an answer (end of sequence, of turn); the chat
    template may add its own. ``special`` maps the text of every token that is read as one wherever it is typed to
    its id.
    """

    def __init__(self, inner: Any, stop_ids: list[int]) -> None:
        self.inner = inner
        self.stop_ids = stop_ids
        self.size = len(inner)
        self.special: dict[str, int] = {str(token): i for i, token in inner.added_tokens_decoder.items()}

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text: special tokens are recognised, none is added."""
        ids: list[list[int]] = self.inner(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return ids

    def decode(self, ids: list[int]) -> str:
        """The text of ids, special tokens included, nothing cleaned up."""
        return str(self.inner.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def digest(self) -> str:
        """SHA-256 over everything that decides which ids a text gets."""
        backend = getattr(self.inner, "backend_tokenizer", None)
        text = backend.to_str() if backend else json.dumps(sorted(self.inner.get_vocab().items()))
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the tokenizer, its template and its stop ids, so that ``load`` on ``folder`` gives the same again."""
        self.inner.save_pretrained(folder)
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": self.stop_ids}) + "\n")


def load(model: str, *, trust_remote_code: bool = False) -> Tokenizer:
    """Load a model's tokenizer. ``model`` is a directory, a hub id or a ``.gguf`` file. Raises RenderError."""
    # transformers would announce at import, and again at every long prompt, what does not matter here
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    path = Path(model)
    if path.suffix == ".gguf":
        return Tokenizer(load_gguf_tokenizer(path), gguf_stop_ids(path))
    if path.is_file() or (not path.is_dir() and (path.is_absolute() or model.count("/") != 1)):
        raise RenderError(
            f"model {model!r}: no such tokenizer directory or .gguf file, and not a hub id (owner/name)",
            "name a directory that holds tokenizer.json, a .gguf file, or a hub id",
        )
    from transformers import AutoTokenizer

    try:
        inner = AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code)
    except Exception as error:  # the loaders raise whatever a broken file makes them raise
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        advice = "" if trust_remote_code else "one with code of its own needs `trust_remote_code: true` in the recipe"
        raise RenderError(f"model {model!r}: its tokenizer cannot be loaded: {first}", advice) from error
    inner.model_max_length = int(1e30)  # the engine's context decides, not the tokenizer's warning
    return Tokenizer(inner, _stop_ids(model, inner))


def _stop_ids(model: str, inner: Any) -> list[int]:
    """End-of-sequence ids of ``generation_config.json`` (one or a list), then the tokenizer's own."""
    named: list[int] = []
    try:
        file = Path(model) / "generation_config.json"
        if not Path(model).is_dir():
            from huggingface_hub import hf_hub_download

            file = Path(hf_hub_download(model, "generation_config.json"))
        value = json.loads(file.read_text()).get("eos_token_id")
        named = value if isinstance(value, list) else [value] if value is not None else []
    except (OSError, ValueError):
        pass  # many models have no such file; the tokenizer's own end of sequence follows
    own = [inner.eos_token_id] if inner.eos_token_id is not None else []
    return list(dict.fromkeys(named + own))
