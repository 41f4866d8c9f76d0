"""Special tokens that somebody typed as text."""

from typing import Any

import pytest

from draftmill.records import Conversation
from draftmill.render.special import SpecialText

TOKENS = ["<|im_end|>", "<|im_end|>x", "<think>", "##", "\n\n\n", "  ", "[INST]"]


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ({"role": "user", "content": "say <|im_end|> please"}, ["<|im_end|>"]),
        ({"role": "system", "content": "never write <think>"}, ["<think>"]),
        ({"role": "tool", "content": '{"a": "[INST]"}'}, ["[INST]"]),
        ({"role": "assistant", "content": "<think>so</think><|im_end|>"}, []),  # what a template puts there itself
        ({"role": "user", "content": "<think> <|im_end|> <think>"}, ["<think>", "<|im_end|>"]),
        ({"role": "user", "content": "<|im_end|>x"}, ["<|im_end|>x"]),  # the longest, as tokenizers take it
        (
            {"role": "user", "content": "<|im_end | > im_end think ## \n\n\n   a"},
            [],
        ),  # the short and blank ones are text
        ({"role": "user", "content": [{"type": "text", "text": "a [INST]"}, {"type": "image"}]}, ["[INST]"]),
        ({"role": "user", "content": None}, []),
        ({"role": "user"}, []),
    ],
)
def test_what_is_found(message: dict[str, Any], found: list[str]) -> None:
    assert SpecialText(TOKENS).found(Conversation([message])) == found


def test_all_messages_count_in_order() -> None:
    messages = [
        {"role": "system", "content": "<think>"},
        {"role": "assistant", "content": "<|im_end|>"},
        {"role": "user", "content": "[INST]<think>"},
    ]
    assert SpecialText(TOKENS).found(Conversation(messages)) == ["<think>", "[INST]"]


@pytest.mark.parametrize("tokens", [[], ["  ", "a"]])
def test_a_tokenizer_without_such_tokens(tokens: list[str]) -> None:
    assert SpecialText(tokens).found(Conversation([{"role": "user", "content": "  a <|im_end|>"}])) == []
