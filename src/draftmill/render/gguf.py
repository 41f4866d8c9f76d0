"""A tokenizer rebuilt from a GGUF file's metadata, without torch.

The pre-tokenisers are llama.cpp's own, by the name that stands in ``tokenizer.ggml.pre``. A name that is not in the
table is refused instead of guessed, "default" (or none) too: it says that the file's converter did not know the
tokenizer. Whatever is built is compared with the engine's own ids when a run starts.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftmill.errors import RenderError

if TYPE_CHECKING:
    from tokenizers import pre_tokenizers
    from transformers import PreTrainedTokenizerFast

_CONTROL, _USER_DEFINED = 3, 4  # token types of the GGUF specification

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_SINGLE_DIGITS = (r"\p{N}", _GPT2)
# name in the file → the patterns that split a text, one after the other
_PATTERNS: dict[str, tuple[str, ...]] = {
    "gpt-2": (_GPT2,),
    "smollm": _SINGLE_DIGITS,
    "starcoder": _SINGLE_DIGITS,
    "refact": _SINGLE_DIGITS,
    "command-r": _SINGLE_DIGITS,
    "codeshell": _SINGLE_DIGITS,
    "llama-bpe": (_LLAMA3,),
    "llama3": (_LLAMA3,),
    "llama-v3": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "deepseek-r1-qwen": (_QWEN2,),
}


def load_gguf_tokenizer(path: Path) -> "PreTrainedTokenizerFast":
    """The tokenizer and chat template inside a GGUF file. Raises RenderError when there is none that can be rebuilt."""
    fields = _fields(path)
    family = fields.get("tokenizer.ggml.model")
    pre = fields.get("tokenizer.ggml.pre")
    advice = "name the model's Hugging Face tokenizer directory in `tokenizer:` instead"
    if family != "gpt2":
        raise RenderError(
            f"{path}: its tokenizer ({family or 'of no name'}) cannot be rebuilt from the file, only BPE (gpt2)", advice
        )
    if pre not in _PATTERNS:
        which = "names no pre-tokeniser" if pre is None else f"has the pre-tokeniser {pre}, which is not known"
        raise RenderError(f"{path}: {which}; there are {', '.join(_PATTERNS)}", advice)
    try:
        return _build(fields, pre)
    except Exception as error:  # the library raises bare exceptions for merges that do not fit the vocabulary
        raise RenderError(f"{path}: its tokenizer is damaged: {damage(error)}", advice) from error


def _build(fields: dict[str, Any], pre: str) -> "PreTrainedTokenizerFast":
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    types: list[int] = fields.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    merges = [tuple(merge.split(" ", 1)) for merge in fields.get("tokenizer.ggml.merges", [])]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    bpe = models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre in ("llama-bpe", "llama3", "llama-v3"))
    backend = Tokenizer(bpe)
    backend.pre_tokenizer = _pre_tokenizer(_PATTERNS[pre])
    backend.decoder = decoders.ByteLevel()
    added = {_CONTROL: True, _USER_DEFINED: False}
    backend.add_tokens(
        [
            AddedToken(token, special=added[kind], normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind in added
        ]
    )
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    ids = {name: fields.get(f"tokenizer.ggml.{key}_token_id") for name, key in names.items()}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        clean_up_tokenization_spaces=False,
        **{name: tokens[i] for name, i in ids.items() if i is not None},
    )
    tokenizer.chat_template = fields.get("tokenizer.chat_template")
    return tokenizer


def gguf_stop_ids(path: Path) -> list[int]:
    """The ids that the file itself names as the end of a sequence, a turn or a message."""
    keys = (f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom"))
    fields = _fields(path)
    return [fields[key] for key in keys if key in fields]


def damage(error: Exception) -> str:
    """What a library stumbled over in a file, in words."""
    match error:
        case KeyError():
            return f"it has no {error.args[0]}" if error.args else "it lacks something"
        case IndexError():
            return "it names something that lies beyond its end"
        case _:
            return " ".join(str(error).split()) or "it breaks off"


_cache: dict[Path, dict[str, Any]] = {}


def _fields(path: Path) -> dict[str, Any]:
    """The tokenizer's metadata of a GGUF file, read once a process: parsing half a million strings takes seconds."""
    if path not in _cache:
        from gguf import GGUFReader

        try:
            reader = GGUFReader(path)
            fields = {k: f.contents() for k, f in reader.fields.items() if k.startswith("tokenizer.")}
        except FileNotFoundError:
            raise RenderError(f"{path}: no such file") from None
        except OSError as error:
            raise RenderError(f"{path}: cannot be read: {error.strerror or error}") from None
        except Exception as error:  # the reader trusts every count in the file, so a broken one can raise anything
            raise RenderError(f"{path}: is not a whole GGUF file: {damage(error)}", "fetch it again") from error
        _cache[path] = fields
    return _cache[path]


def _pre_tokenizer(patterns: tuple[str, ...]) -> "pre_tokenizers.PreTokenizer":
    from tokenizers import Regex, pre_tokenizers

    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
