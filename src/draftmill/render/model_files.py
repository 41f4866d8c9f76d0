"""What a model's small files hold, as digests: cheap enough to ask at every start, exact enough to see a change."""

import hashlib
from pathlib import Path

_NAMES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "tiktoken.model",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
)
_HEAD = 1 << 25  # of a GGUF file: its metadata stands there, 16 MB of it with a vocabulary of 256,000


def fingerprint(model: str) -> dict[str, str]:
    """File name → SHA-256 of a tokenizer directory, or of a GGUF file's head and size. A hub id has only its name."""
    path = Path(model)
    if path.is_file():
        with path.open("rb") as file:
            return {path.name: f"{hashlib.sha256(file.read(_HEAD)).hexdigest()}+{path.stat().st_size}"}
    if path.is_dir():
        files = [path / name for name in _NAMES if (path / name).is_file()]
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    return {"hub": model}
