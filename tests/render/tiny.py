"""Tiny models that tests build themselves: a tokenizer directory of bytes and a few merges, and a GGUF of the same."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<|start|>", "<|end|>", "<|call|>"]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES = [("h", "i"), ("1", "2"), ("12", "3"), ("Ġ", "hi"), ("Ċ", "Ċ")]
VOCABULARY = [*BYTES, *("".join(pair) for pair in MERGES)]
START, END, CALL = range(len(VOCABULARY), len(VOCABULARY) + len(SPECIAL))

TEMPLATE = """\
{%- if tools %}{% for tool in tools %}<|start|>tool {{ tool | tojson }}<|end|>{% endfor %}{% endif -%}
{%- for message in messages -%}
{%- if message.role not in ('system', 'user', 'assistant', 'tool') -%}
{{- raise_exception('no role ' ~ message.role) -}}
{%- endif -%}
<|start|>{{ message.role }}: {{ message.content }}
{%- for call in message.tool_calls or [] -%}
<|call|>{{ call.function.name }} {{ call.function.arguments | tojson }}
{%- endfor -%}
<|end|>
{%- endfor -%}
{%- if add_generation_prompt %}<|start|>assistant:{% if enable_thinking %} think{% endif %}{% endif -%}
"""


def directory(
    folder: Path, template: str | None = TEMPLATE, eos: str | None = "<|end|>", **files: dict[str, Any]
) -> Path:
    """A tokenizer directory with the chat template; ``files`` are JSON files by their stem."""
    bpe = models.BPE(vocab={token: i for i, token in enumerate(VOCABULARY)}, merges=MERGES)
    backend = Tokenizer(bpe)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, clean_up_tokenization_spaces=False)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def gguf_file(
    path: Path,
    *,
    model: str = "gpt2",
    pre: str | None = "gpt-2",
    template: str | None = TEMPLATE,
    tokens: Sequence[str] | None = None,
    merges: Sequence[str] | None = None,
    **ids: int,
) -> Path:
    """A GGUF that holds nothing but a tokenizer; ``ids`` are token ids by their GGUF name, e.g. eos=END."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list([*VOCABULARY, *SPECIAL] if tokens is None else tokens)
    writer.add_token_types([1] * len(VOCABULARY) + [3, 3, 4])
    writer.add_token_merges([" ".join(pair) for pair in MERGES] if merges is None else merges)
    for name, id in ids.items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", id)
    if template is not None:
        writer.add_chat_template(template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
