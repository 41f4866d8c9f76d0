"""Which ids follow each other in a file: rows whose pairs hardly any other row has were cut by another tokenizer, or
hold another language."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from draftmill.verify.lines import Ids

_BITS = 22  # of a pair's hash: 4 MiB of counts
_ROWS = 1000
_LEAST = 200  # rows of a sample that others can be held against
_FIRST = 512  # ids of a row, so that at most an eighth of the table is in use


@dataclass(frozen=True)
class Pairs:
    """In how many rows of a sample each pair stands (by hash, at most 255), ``sampled`` the hashes of these rows, and
    the ``usual`` share of an answer's pairs that other rows have too."""

    rows: npt.NDArray[np.uint8]
    sampled: frozenset[int]
    usual: float = 0.0

    def share(self, answer: Ids, row: int) -> float:
        """The share of an answer's pairs that other rows have too; ``row`` is the hash of its own."""
        found = self.rows[_pairs(answer)]
        return float((found > (row in self.sampled)).mean()) if len(found) else 0.0


def count(sample: Iterable[tuple[int, Ids, Ids]]) -> Pairs | None:
    """The pairs of a sample of rows: (hash of the row, its ids, its answer). None where it is too small to tell."""
    kept = list(islice(sample, _ROWS))
    if len(kept) < _LEAST:
        return None
    rows = np.zeros(1 << _BITS, np.uint8)
    for _, ids, _ in kept:
        places = np.unique(_pairs(ids[:_FIRST]))
        rows[places] = np.minimum(rows[places], 254) + 1
    pairs = Pairs(rows, frozenset(hash for hash, _, _ in kept))
    shares = [pairs.share(answer[:_FIRST], hash) for hash, _, answer in kept]
    return Pairs(rows, pairs.sampled, float(np.median(shares)) if shares else 0.0)


def _pairs(ids: Ids) -> npt.NDArray[np.uint64]:
    """A hash of each pair of neighbours."""
    whole = ids.astype(np.uint64)
    mixed = (whole[:-1] * np.uint64(0x9E3779B97F4A7C15)) ^ (whole[1:] * np.uint64(0xC2B2AE3D27D4EB4F))
    hashes: npt.NDArray[np.uint64] = (mixed * np.uint64(0xFF51AFD7ED558CCD)) >> np.uint64(64 - _BITS)
    return hashes
