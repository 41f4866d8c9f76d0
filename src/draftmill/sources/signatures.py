"""What is kept of a row to know its copies by: a digest, and a sketch of its wording.

MinHash (``rensa``: a thirtieth of the time of datasketch) puts wordings that share most of their words and pairs of
neighbouring words into common bands; ``neighbours`` looks at those only, and compares the words themselves.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash

from draftmill.records import Conversation
from draftmill.sources.wording import Wording, wording

BANDS, ROWS = 16, 4  # of 64 hashes: wordings that share 0.7 of their features meet in a band with 0.99, 0.1 with 0.002
WORDS = 128  # of a wording that are kept, those with the smallest hashes: a fair sample of a longer text
SEED = 1

_encode = msgspec.json.Encoder(order="sorted").encode
_PAIR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd, so that (a, b) and (b, a) differ
_EDGE = np.array([0x165667B19E3779F9], np.uint64)  # stands before the first word and after the last
_LONG = 5  # letters of a word whose place matters; small ones come and go
_MIX = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F], np.uint32)


class Signature(NamedTuple):
    """``exact``: 16 bytes, equal for equal conversations. The rest is empty where near copies are not looked for, and
    for a row without words: ``bands`` (16) and ``words`` (at most 128 hashes, sorted) are arrays of uint32; ``figures``
    are 7 bytes of numbers, signs, code and setting, and how many figures there are, at most 255; ``system`` are 8
    bytes, zeros without a system prompt; ``order`` 4 bytes of the order of the words."""

    exact: bytes
    bands: bytes = b""
    words: bytes = b""
    figures: bytes = b""
    system: bytes = b""
    order: bytes = b""


class Signer:
    """Signs rows; goes to worker processes as it is. ``near``: so that near copies can be found as well."""

    def __init__(self, near: bool) -> None:
        self.near = near

    def sign(self, conversations: Sequence[Conversation]) -> list[Signature]:
        """The signatures of a batch, in its order. A few hundred at once are fastest."""
        exact = [_digest(_encode(conversation), 16) for conversation in conversations]
        if not self.near:
            return [Signature(digest) for digest in exact]
        wordings = [wording(conversation) for conversation in conversations]
        hashes = _hashes([each.words for each in wordings])
        return [
            _signature(digest, each, words, bands)
            for digest, each, (words, _), bands in zip(exact, wordings, hashes, _bands(hashes), strict=True)
        ]

    def sign_tokenized(self, rows: Iterable[tuple[list[int], list[int]]]) -> list[Signature]:
        """The signatures of rows of (ids, mask): equal ones are found, near ones are not looked for."""
        return [Signature(_digest(_encode(row), 16)) for row in rows]


def _signature(exact: bytes, wording: Wording, words: NDArray[np.uint64], bands: NDArray[np.uint32]) -> Signature:
    if not wording.words:
        return Signature(exact)
    figures = _words_digest(wording.figures, wording.setting)[:7] + bytes([min(len(wording.figures), 255)])
    salt = np.frombuffer(figures, np.uint32)[0]  # what differs in its figures is no copy: it need not meet in a band
    return Signature(
        exact,
        (bands ^ salt).tobytes(),
        (words[:WORDS] >> np.uint64(32)).astype(np.uint32).tobytes(),
        figures,
        _words_digest(wording.system),
        _digest(" ".join(word for word in dict.fromkeys(wording.words) if len(word) >= _LONG).encode(), 4),
    )


class _Hashes(NamedTuple):
    """The hashes of one text: its words, and those with its pairs of neighbours; each sorted."""

    words: NDArray[np.uint64]
    features: NDArray[np.uint64]


def _hashes(texts: list[list[str]]) -> list[_Hashes]:
    """Those of each text, in one call for all of them."""
    flat = np.array(RMinHash.hash_token_sets([[word for text in texts for word in text]])[0], np.uint64)
    made, start = [], 0
    for text in texts:
        words = flat[start : start + len(text)]
        start += len(text)
        ends = np.concatenate([_EDGE, words, _EDGE])
        pairs = ends[:-1] * _PAIR[0] + ends[1:] * _PAIR[1]
        made.append(_Hashes(np.unique(words), np.concatenate([words, pairs])))
    return made


def _bands(hashes: list[_Hashes]) -> NDArray[np.uint32]:
    """(texts, BANDS): equal where all hashes of a band are."""
    matrix = RMinHash.digest_matrix_from_token_hash_sets(
        [each.features.tolist() for each in hashes], BANDS * ROWS, SEED
    )
    minima = np.array(matrix.to_rows(), np.uint32).reshape(len(hashes), BANDS, ROWS)
    mixed: NDArray[np.uint32] = (minima * _MIX).sum(axis=2, dtype=np.uint32)
    return mixed ^ (mixed >> np.uint32(15))


def _words_digest(*lists: list[str]) -> bytes:
    return _digest("\0".join(" ".join(words) for words in lists).encode(), 8) if any(lists) else bytes(8)


def _digest(data: bytes, size: int) -> bytes:
    return hashlib.blake2b(data, digest_size=size).digest()
