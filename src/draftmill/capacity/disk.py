"""Bytes on disk: prompts, journal, rows, hidden states."""

from math import log10

_LINE = 330  # bytes of a journal line or a row beside its ids
_TEXT = 4.5  # bytes of a prompt's text for each of its tokens


def id_bytes(vocab: int) -> float:
    """Bytes of one token id in a JSON list: most ids have as many digits as the largest, and a comma."""
    return log10(max(vocab, 10)) + 0.6


def journal(answers: float, tokens: float, vocab: int, *, checkpoints: bool = True) -> float:
    """The ids of the answers, about once more where unfinished answers are checkpointed."""
    return (2 if checkpoints else 1) * tokens * id_bytes(vocab) + answers * _LINE


def rows(answers: float, tokens: float, prompt_tokens: float, vocab: int) -> float:
    """``input_ids`` of prompt and answer, and a mask of as many digits."""
    return (tokens + prompt_tokens) * (id_bytes(vocab) + 2) + answers * _LINE


def prompts(count: float, prompt_tokens: float, vocab: int) -> float:
    """Ids and messages of every prompt, whether it is sent or not."""
    return prompt_tokens * (id_bytes(vocab) + _TEXT) + count * _LINE


def hidden_states(tokens: float, hidden: int) -> float:
    """Three of the target's layers and the last one, in bf16: 4 · hidden · 2 bytes a token."""
    return tokens * 4 * hidden * 2
