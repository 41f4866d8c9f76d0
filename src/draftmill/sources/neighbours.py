"""Near copies among the rows seen so far.

A row is a near copy of an earlier one when all of this holds:

- Numbers, signs, code in fences, tools and the number of messages are the same; and the system prompt is, or one of the
  two has none.
- They share ``ALIKE`` of the words of both; ``ALIKE_FIGURES`` is enough where the same figures stand in both and in
  hardly any other row.
- Little was changed *for something else*. Words that are only gone, or only there in addition, are an edit. Of words
  gone and others in their place there may be one for every ``SWAPPED`` that stayed, and they must not say much more
  than those. How much a word says falls with the number of rows that have it: so among rows of one template its own
  words say nothing, and what a row puts into it says all. Where several rows are alike, hardly anything may be
  changed. This also means that a noun for another in an otherwise unique text is an edit.
- Where all words are the same, so is their order.
"""

from itertools import combinations
from math import inf
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from draftmill.sources.signatures import BANDS, WORDS, Signature

ALIKE = 0.6  # two of eight words replaced, or a greeting of six put before ten
ALIKE_FIGURES = 0.4
FIGURES, FEW = 3, 4  # so many figures in at most so many rows say more than words do
SWAPPED = 7  # of so many common words one may be another: none in a short request
HEAVIER = 0.9  # times what a kept word says on average, a changed one may say
CROWD, CROWDED = 2, 0.4  # so many rows that share so much are a template, where no more may change than
CHANGED = 0.045  # of the weight of what was kept: a word of the template, not one put into it
_COLUMNS = ("keyed", "words", "ends", "figures", "systems", "orders", "places")
_HALF = 2.0  # rows in which a word weighs half
_NOVEL = 0.1  # weight of a word that no other row has: more often a slip of the pen than a thing
_RARE = 5  # rarest words, of which any two lead to a row
_PAIRS = np.array(list(combinations(range(_RARE), 2))).T
_KEYS = BANDS + 1 + _PAIRS.shape[1]
_WAYS = 4  # rows that a place of the table holds: a band that more share is made of what all rows say
_FULL = 0.6  # of the table, from which on it grows
_TRIED = 6  # candidates that are compared, those that share the most keys first
_COUNTED = np.uint32((1 << 22) - 1)  # counters of features; two that share one weigh less than they should


class Growing:
    """An array that grows at its end by a quarter at a time, in place where the system can."""

    def __init__(self, data: NDArray[Any]) -> None:
        self._data = data.copy()
        self._length = len(data)

    def extend(self, data: NDArray[Any]) -> None:
        end = self._length + len(data)
        if end > len(self._data):
            self._data.resize((max(end + (end >> 2), 1024), *self._data.shape[1:]), refcheck=False)
        self._data[self._length : end] = data
        self._length = end

    def __len__(self) -> int:
        return self._length

    @property
    def all(self) -> NDArray[Any]:
        """What is in it: a view, good until it grows."""
        return self._data[: self._length]


class Neighbours:
    """The wordings seen so far, by number from 0. Some 600 bytes each with 50 words."""

    def __init__(self) -> None:
        self._keyed = Growing(np.empty((0, _KEYS), np.uint32))
        self._words = Growing(np.empty(0, np.uint32))
        self._ends = Growing(np.zeros(1, np.uint64))
        self._figures = Growing(np.empty(0, np.uint64))
        self._systems = Growing(np.empty(0, np.uint64))
        self._orders = Growing(np.empty(0, np.uint32))
        self._places = Growing(np.empty(0, np.uint64))
        self._counts = np.zeros(1 << 22, np.uint32)
        self._table = np.zeros((1 << 12, _WAYS), np.uint32)

    def __len__(self) -> int:
        return len(self._figures)

    def learn(self, signature: Signature) -> None:
        """Count what a row says, so that later ones are judged by how common that is. To be done once, before it is
        looked for."""
        if not signature.bands:
            return
        self._counts[_words(signature) & _COUNTED] += np.uint32(1)
        self._counts[_salt(signature) & _COUNTED] += np.uint32(1)

    def near(self, signature: Signature) -> int | None:
        """The place of the row that this one is a near copy of, the likest of those compared."""
        if not signature.bands or not len(self):
            return None
        keys = self._keys(signature, known=2)
        held = self._table[keys & np.uint32(len(self._table) - 1)]
        at, way = held.nonzero()
        rows = held[at, way] - np.uint32(1)
        same = self._figures.all[rows] == _number(signature.figures)
        at, rows = at[same], rows[same]
        have = self._have(rows, at, keys)
        if not have.any():
            return None
        candidates, which = np.unique(rows[have], return_inverse=True)
        shared = np.bincount(which, np.where(at[have] >= BANDS, BANDS, 1))  # what is rare leads to few rows
        system = _number(signature.system)
        found = [
            (row, *self._alike(signature, row))
            for row in candidates[np.argsort(-shared, kind="stable")[:_TRIED]].tolist()
            if system == (other := int(self._systems.all[row])) or not system or not other
        ]
        crowd = sum(alike >= CROWDED for _, alike, _, _ in found) >= CROWD
        near = [
            (alike, -row)
            for row, alike, changed, swapped in found
            if changed <= (CHANGED if crowd else HEAVIER * swapped)
        ]
        return int(self._places.all[-max(near)[1]]) if near else None

    def add(self, signature: Signature, place: int) -> None:
        """Remember a row that has been learnt; one without words is never found."""
        if not signature.bands:
            return
        keys = self._keys(signature, known=1)
        self._keyed.extend(keys[None])
        self._words.extend(_words(signature))
        self._ends.extend(np.array([len(self._words)], np.uint64))
        self._figures.extend(np.array([_number(signature.figures)], np.uint64))
        self._systems.extend(np.array([_number(signature.system)], np.uint64))
        self._orders.extend(np.frombuffer(signature.order, np.uint32))
        self._places.extend(np.array([place], np.uint64))
        if len(self) * _KEYS > _FULL * self._table.size:
            self._rebuild()
            return
        spots = keys & np.uint32(len(self._table) - 1)
        free = self._table[spots] == 0
        has = free.any(axis=1)
        self._table[spots[has], free.argmax(axis=1)[has]] = len(self)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays that ``restored`` makes this again of."""
        return {**{name: getattr(self, f"_{name}").all for name in _COLUMNS}, "counts": self._counts}

    @classmethod
    def restored(cls, state: dict[str, NDArray[Any]]) -> "Neighbours":
        made = cls()
        for name in _COLUMNS:
            setattr(made, f"_{name}", Growing(state[name]))
        made._counts = state["counts"].copy()
        made._rebuild()
        return made

    def _keys(self, signature: Signature, known: int) -> NDArray[np.uint32]:
        """What near copies are likely to have in common: the bands; all of their words; and pairs of the rarest words,
        since where rows share a template no band tells them apart. What fewer than ``known`` rows have is a slip of the
        pen, by which nothing can be found."""
        words = _words(signature)
        seen = self._counts[words & _COUNTED].astype(np.int64)
        seen[seen < known] = 1 << 40
        rarest = np.sort(words[np.argsort(seen, kind="stable")[:_RARE]])
        keys = np.zeros(_KEYS, np.uint32)
        keys[:BANDS] = np.frombuffer(signature.bands, np.uint32)
        salt = _salt(signature)
        keys[BANDS] = np.uint32(crc32(signature.words)) ^ salt
        first, second = _PAIRS[:, (len(rarest) > _PAIRS).all(axis=0)]
        pairs = rarest[first] * np.uint32(0x9E3779B1) + rarest[second] * np.uint32(0x85EBCA77)
        keys[BANDS + 1 : BANDS + 1 + len(pairs)] = pairs ^ salt
        return keys

    def _have(self, rows: NDArray[np.uint32], at: NDArray[np.intp], keys: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Which rows really have the key that led to them, and not another one with the same place in the table."""
        have: NDArray[np.bool_] = self._keyed.all[rows, at] == keys[at]
        rare = (at > BANDS).nonzero()[0]  # these stand in any order
        have[rare] = (self._keyed.all[rows[rare], BANDS + 1 :] == keys[at[rare], None]).any(axis=1)
        return have

    def _alike(self, signature: Signature, row: int) -> tuple[float, float, float]:
        """The share of the words of both that both have, as far as both sketches reach; and of what was changed for
        something else, in what was kept, the weight (infinite in what is no near copy anyway) and the number."""
        ends, mine = self._ends.all, _words(signature)
        other = self._words.all[int(ends[row]) : int(ends[row + 1])]
        reach = min((int(each[-1]) for each in (mine, other) if len(each) == WORDS), default=1 << 32)
        mine = mine[: mine.searchsorted(reach, "right")]
        other = other[: other.searchsorted(reach, "right")]
        if min(len(mine), len(other)) < ALIKE_FIGURES * max(len(mine), len(other)) or not len(mine):
            return 0.0, inf, 0.0  # whatever they have in common
        at = np.minimum(mine.searchsorted(other), len(mine) - 1)
        same = mine[at] == other
        common = int(same.sum())
        alike = common / (len(mine) + len(other) - common)
        telling = signature.figures[-1] >= FIGURES and self._counts[_salt(signature) & _COUNTED] <= FEW
        if telling or alike < ALIKE:
            return alike, 0.0 if telling and alike >= ALIKE_FIGURES else inf, 0.0
        if alike == 1.0 and len(mine) < WORDS:
            same_order = self._orders.all[row] == np.frombuffer(signature.order, np.uint32)[0]
            return alike, 0.0 if same_order else inf, 0.0
        new = np.ones(len(mine), bool)
        new[at[same]] = False
        lost, gained = other[~same], mine[new]
        swapped = min(len(lost), len(gained))
        if not swapped:
            return alike, 0.0, 0.0
        if swapped > common // SWAPPED:
            return alike, inf, 0.0
        changed = min(self._weight(lost, 0), self._weight(gained, 1))
        return alike, changed / self._weight(other[same], 1), swapped / common

    def _weight(self, words: NDArray[np.uint32], others: int) -> float:
        """How much these words say of a row: each the less, the more rows beside its ``others`` have it."""
        seen = self._counts[words & _COUNTED].astype(np.float64) - others
        return float(np.where(seen > 0, _HALF / (_HALF + seen), _NOVEL).sum())

    def _rebuild(self) -> None:
        """A table with room for twice as many entries; each place holds its first rows."""
        size = 1 << max(12, int(2 * len(self) * _KEYS / _FULL / _WAYS - 1).bit_length() - 1)
        self._table = table = np.zeros((size, _WAYS), np.uint32)
        keyed = self._keyed.all
        real = np.arange(len(keyed), dtype=np.uint32)
        for key in range(_KEYS):  # a key at a time: sorting all at once would take more memory than the table
            places = keyed[:, key] & np.uint32(size - 1)
            order = np.argsort(places, kind="stable")
            places, rows = places[order], real[order]
            starts = np.concatenate([[True], places[1:] != places[:-1]])
            rank = np.arange(len(places)) - np.maximum.accumulate(np.where(starts, np.arange(len(places)), 0))
            rank += (table[places] != 0).sum(axis=1)
            fits = rank < _WAYS
            table[places[fits], rank[fits]] = rows[fits] + 1


def _words(signature: Signature) -> NDArray[np.uint32]:
    return np.frombuffer(signature.words, np.uint32)


def _salt(signature: Signature) -> np.uint32:
    return np.frombuffer(signature.figures, np.uint32)[0]  # type: ignore[no-any-return]


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "little")
