"""A tokenizer whose ids suit the simulated server: its stop id ends an answer, every id that it draws has a text."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from draftmill.engines.simulated.answers import BEGIN, FIRST, STOP
from tests.render import tiny

SPECIAL = [f"<|{i}|>" for i in range(FIRST)]
SPECIAL[1], SPECIAL[STOP], SPECIAL[BEGIN] = "<|start|>", "<|end|>", "<|begin|>"
VOCABULARY = [*SPECIAL, *tiny.BYTES]


def directory(folder: Path) -> Path:
    """Bytes behind the special tokens, with the template of the tiny models."""
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(VOCABULARY)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")
    tokenizer.chat_template = tiny.TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder
