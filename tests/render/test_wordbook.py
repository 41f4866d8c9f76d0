"""The wordbook gives the tokenizer's own ids or none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from draftmill.render import wordbook
from draftmill.render.wordbook import Wordbook
from tests.render.tiny import BYTES, MERGES, VOCABULARY

GPT2 = wordbook._GPT2
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)


def split(pattern: str) -> Any:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def made(
    *steps: Any, normalizer: Any = None, added: tuple[str, ...] = ("<|im|>", "<|im_end|>"), **token: Any
) -> Tokenizer:
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(VOCABULARY)}, merges=MERGES))
    backend.pre_tokenizer = pre_tokenizers.Sequence(list(steps)) if len(steps) > 1 else steps[0]
    if normalizer:
        backend.normalizer = normalizer
    backend.add_special_tokens([AddedToken(text, special=True, normalized=False, **token) for text in added])
    return backend


BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
KINDS = {
    "gpt2": made(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "smollm": made(split(r"\p{N}"), split(GPT2), BYTE_LEVEL),
    "digits": made(pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "llama3": made(split(LLAMA3), BYTE_LEVEL),
    "qwen2": made(split(LLAMA3.replace("{1,3}", "")), BYTE_LEVEL, normalizer=normalizers.NFC()),
    "o200k": made(split(O200K), BYTE_LEVEL),
    "deepseek": made(*map(split, DEEPSEEK), BYTE_LEVEL),
    "without added tokens": made(split(LLAMA3), BYTE_LEVEL, added=()),
}
LETTERS = "aZ19 '_\"-.\t\n\r\\/<|>éßıſK²½ªıİǅ中あア한กนไʼ🙂\u200b\u00a0\u2028\u3000\x0b\x1c\x85\u0301"
PARTS = ("'s", "'LL", "hi", " hi", "123", "<|im|>", "<|im_end|>", "<|im", "  ", "\n\n", "你好", " ", "e\u0301")
PIECES = st.sampled_from([*LETTERS, *PARTS])
TEXTS = st.lists(PIECES, max_size=24).map("".join) | st.text(max_size=24)


@pytest.mark.parametrize("kind", KINDS)
def test_it_gives_the_tokenizers_own_ids(kind: str) -> None:
    backend = KINDS[kind]
    book = Wordbook.of(backend)
    assert book is not None
    given_ids = 0

    @given(TEXTS)
    def holds(text: str) -> None:
        nonlocal given_ids
        if (ids := book.ids(text)) is not None:
            given_ids += 1
            assert ids == backend.encode(text, add_special_tokens=False).ids

    holds()
    assert given_ids, "it must be of some use"


@pytest.mark.parametrize(
    "backend",
    [
        made(pre_tokenizers.ByteLevel(add_prefix_space=True)),
        made(pre_tokenizers.Metaspace()),
        made(pre_tokenizers.Whitespace(), BYTE_LEVEL),
        made(pre_tokenizers.Split(Regex(GPT2), "removed"), BYTE_LEVEL),
        made(split("(a)|(b)"), BYTE_LEVEL),
        made(BYTE_LEVEL, normalizer=normalizers.Lowercase()),
        made(BYTE_LEVEL, lstrip=True),
        made(BYTE_LEVEL),
    ],
)
def test_tokenizers_of_other_makes_do_all_by_themselves(backend: Tokenizer) -> None:
    assert Wordbook.of(backend) is None


def test_the_alphabet_is_the_tokenizers() -> None:
    assert sorted(map(chr, wordbook._BYTES.values())) == BYTES


def test_it_forgets_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordbook, "_MOST", 3)
    book = Wordbook.of(KINDS["llama3"])
    assert book is not None
    for n in range(40):
        text = f"w{'x' * n} and {n}"
        assert book.ids(text) == KINDS["llama3"].encode(text).ids and len(book._known) <= 3
