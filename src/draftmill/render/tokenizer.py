"""The target's tokenizer: from a Hugging Face directory, a hub id, or a GGUF file. Never needs torch."""

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any

import msgspec

from draftmill.errors import RenderError, StorageError
from draftmill.render.gguf import gguf_stop_ids, load_gguf_tokenizer
from draftmill.render.wordbook import Wordbook

_HUB_SECONDS = 20.0
_CHECKED_FIRST, _CHECKED_EVERY = (
    64,
    256,
)  # texts that the wordbook gives ids to, and that the tokenizer is asked about too


class Tokenizer:
    """Texts to ids and back, and what the tokenizer's own files say about special tokens.

    ``name`` is where it came from, for messages. ``stop_ids`` are the ids that the model's files name as ends of an
    answer (end of sequence, of turn); the chat template may add its own. ``special`` maps the text of every token that
    is read as one wherever it is typed to its id.
    """

    def __init__(self, inner: Any, stop_ids: list[int], name: str = "") -> None:
        self.inner = inner
        self.name = name
        self.stop_ids = stop_ids
        self.size = max(inner.get_vocab().values()) + 1  # ids may have gaps: their number says less
        self.special: dict[str, int] = {str(token): i for i, token in inner.added_tokens_decoder.items()}
        self._wordbook: Wordbook | None = None
        self._checked = 0

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text: special tokens are recognised, none is added."""
        if not texts:
            return []  # transformers fails on an empty batch
        ids: list[list[int]] = self.inner(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return ids

    def encode_many(self, texts: list[str]) -> list[list[int]]:
        """The same for a great many texts: words that were seen before are looked up. Every so often it is held against
        ``encode``; raises RenderError where it ever differs."""
        if self._wordbook is None and not self._checked and os.environ.get("DRAFTMILL_WORDBOOK") != "off":
            self._wordbook = Wordbook.of(getattr(self.inner, "backend_tokenizer", None))
        if self._wordbook is None:
            self._checked = 1
            return self.encode(texts)
        found = [self._wordbook.ids(text) for text in texts]
        again = [n for n, ids in enumerate(found) if ids is None or self._due()]
        for n, own in zip(again, self.encode([texts[n] for n in again]), strict=True):
            if found[n] not in (None, own):
                raise RenderError(
                    "the tokenizer cuts a text otherwise than its wordbook does, which is a fault of draftmill's: "
                    f"{texts[n][:200]!r}",
                    "please report it; with DRAFTMILL_WORDBOOK=off the tokenizer does all by itself",
                )
            found[n] = own
        return [ids for ids in found if ids is not None]

    def _due(self) -> bool:
        """Whether this text is one of those that are looked at twice: the first few, and then one in so many."""
        self._checked += 1
        return self._checked <= _CHECKED_FIRST or self._checked % _CHECKED_EVERY == 0

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
        try:
            self.inner.save_pretrained(folder)
            (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": self.stop_ids}) + "\n")
        except Exception as error:  # the tokenizers library raises bare exceptions, for a full disk too
            message = f"{folder}: the run's copy of the tokenizer cannot be written: {error}"
            raise StorageError(message, "free some space or mend the rights, then run it again") from error


def load(model: str, *, trust_remote_code: bool = False) -> Tokenizer:
    """Load a model's tokenizer. ``model`` is a directory, a hub id or a ``.gguf`` file. Raises RenderError."""
    # transformers would announce at import, and again at every long prompt, what does not matter here
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    path = Path(model)
    if path.suffix == ".gguf":
        return Tokenizer(load_gguf_tokenizer(path), gguf_stop_ids(path), model)
    if path.is_file() or (not path.is_dir() and (path.is_absolute() or model.count("/") != 1)):
        raise RenderError(
            f"model {model!r}: no such tokenizer directory or .gguf file, and not a hub id (owner/name)",
            "name a directory that holds tokenizer.json, a .gguf file, or a hub id",
        )
    from transformers import AutoTokenizer

    offline = "" if path.is_dir() else _unreachable(model)
    try:
        # False, and not left out: transformers would ask on the terminal whether to run a model's own code
        inner = AutoTokenizer.from_pretrained(
            model, trust_remote_code=trust_remote_code, local_files_only=bool(offline)
        )
    except Exception as error:  # the loaders raise whatever a broken file makes them raise
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        first = offline + (" ".join(str(error).split()) if first.endswith(":") else first)  # a list stands behind it
        raise RenderError(f"model {model!r}: its tokenizer cannot be loaded: {first}", _advice(path, error)) from error
    inner.model_max_length = int(1e30)  # the engine's context decides, not the tokenizer's warning
    return Tokenizer(inner, list(dict.fromkeys([*_named_ends(model, bool(offline)), *_own_end(inner)])), model)


def _unreachable(model: str) -> str:
    """Why the hub cannot be asked about a model, or "". One question: its client would try each file for half a minute.

    What was fetched before is then taken from its cache.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it would print a line for each of its retries
    try:
        HfApi().model_info(model, timeout=_HUB_SECONDS)
    except HfHubHTTPError:
        return ""  # it answers: whatever is wrong is told by the loader
    except Exception as error:  # of several libraries, and of the system
        return f"the hub cannot be reached ({error}): "
    return ""


def _advice(path: Path, error: Exception) -> str:
    if "trust_remote_code" in str(error):
        return "it has code of its own: read that, then write `trust_remote_code: true` into the recipe"
    if path.is_dir():
        return "the directory must hold what the model's publisher calls tokenizer files, tokenizer.json above all"
    where = f"`hf download {path} --local-dir {path.name}` where the hub can be reached"
    return f"{path} is no directory here, so it was looked for on the hub; without the hub, name a directory: {where}"


class _Ends(msgspec.Struct):
    """What the files of a model say about the end of an answer."""

    eos_token_id: int | list[int] | None = None


def _named_ends(model: str, offline: bool) -> list[int]:
    """End-of-sequence ids of ``generation_config.json`` and of ``config.json``: servers stop at those of both."""
    found: list[int] = []
    for name in ("generation_config.json", "config.json"):
        path = _model_file(model, name, offline)
        if path is None:
            continue  # many models have only one of them, or none
        try:
            value = msgspec.json.decode(path.read_bytes(), type=_Ends).eos_token_id
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise RenderError(f"{path}: cannot be read: {error}", "restore the model's files") from error
        found += value if isinstance(value, list) else [value] if value is not None else []
    return found


def _model_file(model: str, name: str, offline: bool) -> Path | None:
    if Path(model).is_dir():
        path = Path(model) / name
        return path if path.is_file() else None
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(model, name, local_files_only=offline))
    except (OSError, ValueError):
        return None


def _own_end(inner: Any) -> list[int]:
    return [inner.eos_token_id] if inner.eos_token_id is not None else []
