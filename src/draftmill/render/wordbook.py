"""The ids of words that were seen before: what a tokenizer would give, in a tenth of its time.

A byte-level BPE cuts a text at its added tokens, then into words by a regular expression, and gives each word its ids
by itself. So a word has the same ids wherever it stands, and most words of a dataset are few. The words are cut here by
the same expression, and the tokenizer's own model is asked once for each.

What is not certain to be cut alike is left to the tokenizer: one of another make, and texts with characters that the
two engines of regular expressions could take for different things.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from itertools import chain
from typing import Any

import regex

_MOST = 200_000  # words remembered, some 40 MB; then it begins anew
_SHORT = 8  # characters of a piece that is remembered as a whole
_LONGEST = 64  # characters of a word that is worth remembering

# Beyond ASCII: letters and signs of the common scripts, all of them in Unicode for decades. White space but the four of
# ASCII is not in it (what counts as such differs), nor the long s and its like: an s where case is not looked at.
_DOUBTFUL = re.compile(
    r"[^\t\n\r\x20-\x7e\u00a1-\u00ac\u00ae-\u012f\u0131-\u017e\u0391-\u03a1\u03a3-\u03c9\u0401-\u044f\u0451-\u045f"
    r"\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u0905-\u0939\u2010-\u2027\u2030-\u205e\u20ac\u2190-\u2193\u2200-\u22ff"
    r"\u3001-\u3003\u3008-\u3011\u3041-\u3094\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3\uff01\uff0c\uff1a\uff1b\uff1f]"
)
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # what ByteLevel cuts by
# the same behind a cut at every digit, in one go: white space before a digit ends there, as at the end of a text
_DIGITS_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+"
_TRIALS = (
    "Hello, world! It's 10:45; we'LL pay $1,234.50 (or 3/4).\n\n\tdef f(x):\n\t    return x ** 2  # ok\r\n",
    "  leading,   inner and trailing   ",
    "Ünïcödé Straße Ελλάδα Москва שלום مرحبا नमस 你好，世界！ こんにちは カタカナ 한국어 ∑≠∞ €5 “x” – …",
    "x  1   22    333\n 4444 a1b2 'tis don't DON'T I'd",
)


def _alphabet() -> dict[int, int]:
    """The character that stands for each byte in a byte-level vocabulary: itself where it can be seen."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {byte: byte for byte in seen} | {byte: 256 + n for n, byte in enumerate(hidden)}


_BYTES = _alphabet()


class Wordbook:
    """The words of one tokenizer, made by ``of``."""

    def __init__(self, cuts: "list[regex.Pattern[str]]", added: dict[str, int], model: Any) -> None:
        *self._first, self._words = cuts
        self._between = regex.compile(f"({self._words.pattern})")
        self._ascii = _ascii(self._words.pattern)
        self._added = added
        texts = sorted(added, key=len, reverse=True)  # of two that begin alike the longer one
        self._apart = re.compile(f"({'|'.join(map(re.escape, texts))})") if texts else None
        self._known = _Known(model)
        self._pieces: dict[str, list[int]] = {}  # what stands between cuts, where it is short: a digit, as a rule

    @classmethod
    def of(cls, backend: Any) -> "Wordbook | None":
        """The wordbook of a tokenizer of the ``tokenizers`` library; None for one that is no plain byte-level BPE."""
        if backend is None:
            return None
        made = json.loads(backend.to_str())
        added = made["added_tokens"]
        cuts = _cuts(made["pre_tokenizer"]) if _is_plain(made) and not backend.encode_special_tokens else None
        if not cuts:
            return None
        book = cls(cuts, {token["content"]: token["id"] for token in added}, backend.model)
        trials = (*_TRIALS, *(f"a {token['content']}b" for token in added[:8]))
        own = [backend.encode(text, add_special_tokens=False).ids for text in trials]
        return book if [book.ids(text) for text in trials] == own else None

    def ids(self, text: str) -> list[int] | None:
        """The ids of a text, or None where the tokenizer has to be asked."""
        if _DOUBTFUL.search(text) or not (text.isascii() or unicodedata.is_normalized("NFC", text)):
            return None
        ids: list[int] = []
        for number, part in enumerate(self._apart.split(text) if self._apart else [text]):
            if number % 2:
                ids.append(self._added[part])
                continue
            pieces = [part]
            for cut in self._first:
                pieces = [each for piece in pieces for each in cut.split(piece)]
            for piece in pieces:
                if len(piece) > _SHORT:
                    ids.extend(self._cut(piece))
                elif piece:
                    found = self._pieces.get(piece)
                    if found is None:
                        if len(self._pieces) >= _MOST:
                            self._pieces.clear()
                        found = self._pieces[piece] = list(self._cut(piece))
                    ids += found
        return ids

    def _cut(self, piece: str) -> Iterator[int]:
        """The ids of the words of what stands between cuts."""
        words = (self._ascii if piece.isascii() else self._words).findall(piece)
        if sum(map(len, words)) != len(piece):  # what stands between the matches is a word too
            words = [each for each in self._between.split(piece) if each]
        return chain.from_iterable(map(self._known.__getitem__, words))


class _Known(dict[str, list[int]]):
    """The ids of the words that were met; of another one the model is asked."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def __missing__(self, word: str) -> list[int]:
        ids = [token.id for token in self._model.tokenize(word.encode().decode("latin-1").translate(_BYTES))]
        if len(word) <= _LONGEST:
            if len(self) >= _MOST:
                self.clear()
            self[word] = ids
        return ids


def _is_plain(made: dict[str, Any]) -> bool:
    """Whether a tokenizer only cuts a text, first at its added tokens, and gives ids to the pieces."""
    model, added = made["model"], made["added_tokens"]
    return (
        model["type"] == "BPE"
        and not any(model.get(key) for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
        and (made["normalizer"] is None or made["normalizer"] == {"type": "NFC"})
        and made["truncation"] is None
        and made["padding"] is None
        and not any(token[key] for token in added for key in ("single_word", "lstrip", "rstrip"))
        and len({token["normalized"] for token in added}) < 2
    )


def _cuts(made: Any) -> "list[regex.Pattern[str]] | None":
    """The expressions by which a pre-tokenizer cuts, one after the other; None for one that works in another way.

    All but the last keep what stands between its matches, so they are made to split.
    """
    steps = made["pretokenizers"] if made and made["type"] == "Sequence" else [made]
    last = steps[-1] if steps else None
    if not last or last["type"] != "ByteLevel" or last["add_prefix_space"]:
        return None
    patterns = [_pattern(step) for step in steps[:-1]] + ([_GPT2] if last["use_regex"] else [])
    if patterns == [r"\p{N}", _GPT2]:
        patterns = [_DIGITS_GPT2]
    try:
        compiled = [regex.compile(pattern) for pattern in patterns if pattern is not None]
        if len(compiled) < max(1, len(patterns)) or any(each.groups for each in compiled):
            return None
        return [regex.compile(f"({each.pattern})") for each in compiled[:-1]] + compiled[-1:]
    except regex.error:
        return None


def _ascii(pattern: str) -> "re.Pattern[str] | regex.Pattern[str]":
    """The same expression for plain English, where the engine that knows of ASCII only is twice as fast."""
    for category, letters in ((r"\p{L}", "A-Za-z"), (r"\p{N}", "0-9")):
        pattern = re.sub(  # within brackets and on its own
            r"(\[(?:[^\]\\]|\\.)*\])|" + re.escape(category),
            lambda found, c=category, s=letters: found[1].replace(c, s) if found[1] else f"[{s}]",  # type: ignore[misc]
            pattern,
        )
    try:
        return regex.compile(pattern) if r"\p" in pattern else re.compile(pattern)
    except re.error:
        return regex.compile(pattern)


def _pattern(step: dict[str, Any]) -> str | None:
    if step["type"] == "Digits" and step["individual_digits"]:
        return r"\p{N}"
    if step["type"] != "Split" or step["invert"] or step["behavior"] != "Isolated":
        return None
    pattern = step["pattern"].get("Regex")
    return pattern if isinstance(pattern, str) else None
