"""Which rows are copies of earlier ones, within a dataset and across them.

*exact*: the same conversation (messages, tools, later turns) in the canonical form. *near*: the same request in other
clothes, as ``neighbours`` defines it. The first of several copies is the one that stays, so what is kept depends on
the order in which rows are shown, and on nothing else.
"""

from array import array
from collections.abc import Sequence
from typing import IO, Any, Literal
from zipfile import BadZipFile

import numpy as np
from rensa import RMinHash

from draftmill.errors import StorageError
from draftmill.sources.neighbours import Neighbours
from draftmill.sources.signatures import BANDS, ROWS, SEED, WORDS, Signature, Signer
from draftmill.sources.wording import text_of

__all__ = ["Kind", "Seen", "Signature", "Signer", "text_of"]

Kind = Literal["exact", "near"]
_VERSION = f"1 {BANDS} {ROWS} {WORDS} {SEED} {RMinHash.ALGORITHM_VERSION}"
_BYTES = 16
_NEAR = "near_"  # before the names of what near copies are found by


class Seen:
    """The rows shown so far. With ``near`` some 700 bytes a remembered row of 50 words, without some 40."""

    def __init__(self, near: bool) -> None:
        self._digests = bytearray()
        self._places = array("Q")
        self._table = array("I", bytes(4 << 12))  # open addressing: number of the row + 1, 0 where free
        self._neighbours = Neighbours() if near else None

    def __len__(self) -> int:
        return len(self._places)

    @property
    def near(self) -> bool:
        return self._neighbours is not None

    def first(self, signatures: Sequence[Signature], places: Sequence[int]) -> list[tuple[Kind, int] | None]:
        """For each row of a batch None where it is new, else what it is a copy of: kind, and the place of the earlier
        row. All are remembered.

        How common a wording is, is learnt from the whole batch before the first row is judged. So the same rows in the
        same batches give the same, and a first batch of a few thousand of each dataset knows its templates."""
        self._learn(signatures)
        return [self._first(signature, place) for signature, place in zip(signatures, places, strict=True)]

    def find(self, signatures: Sequence[Signature]) -> list[tuple[Kind, int] | None]:
        """The same of rows that are counted, but not remembered: those of a dataset that is compared with this one."""
        self._learn(signatures)
        return [self._find(signature) for signature in signatures]

    def _learn(self, signatures: Sequence[Signature]) -> None:
        if self._neighbours is not None:
            fresh: set[bytes] = set()
            for signature in signatures:
                if signature.exact not in fresh and self._slot(signature.exact)[1] is None:
                    self._neighbours.learn(signature)
                    fresh.add(signature.exact)

    def _find(self, signature: Signature) -> tuple[Kind, int] | None:
        if (row := self._slot(signature.exact)[1]) is not None:
            return "exact", self._places[row]
        near = self._neighbours.near(signature) if self._neighbours is not None else None
        return None if near is None else ("near", near)

    def _first(self, signature: Signature, place: int) -> tuple[Kind, int] | None:
        slot, row = self._slot(signature.exact)
        if row is not None:
            return "exact", self._places[row]
        self._remember(slot, signature.exact, place)
        if self._neighbours is not None:
            if (near := self._neighbours.near(signature)) is not None:
                return "near", near
            self._neighbours.add(signature, place)
        return None

    def save(self, file: IO[bytes]) -> None:
        """Write all of it to an open file."""
        state: dict[str, Any] = {
            "version": np.array(_VERSION),
            "digests": np.frombuffer(self._digests, np.uint8),
            "places": np.frombuffer(self._places, np.uint64),
        }
        if self._neighbours is not None:
            state |= {_NEAR + name: data for name, data in self._neighbours.state().items()}
        np.savez(file, **state)

    @classmethod
    def load(cls, file: IO[bytes]) -> "Seen":
        """What ``save`` wrote. Raises StorageError for what is damaged, or was written by another version."""
        try:
            with np.load(file, allow_pickle=False) as saved:
                state = {name: saved[name] for name in saved.files}
            if str(state.pop("version")) != _VERSION:
                raise ValueError("it was written by another version")
            digests, places = state.pop("digests"), state.pop("places")
            seen = cls(near=False)
            seen._digests = bytearray(digests.tobytes())
            seen._places = array("Q", places.tobytes())
            near = {name.removeprefix(_NEAR): data for name, data in state.items()}
            seen._neighbours = Neighbours.restored(near) if near else None
        except (ValueError, KeyError, EOFError, BadZipFile) as error:
            raise StorageError(f"{getattr(file, 'name', 'the rows seen')}: cannot be read: {error}") from None
        seen._grow()
        return seen

    def _remember(self, slot: int, digest: bytes, place: int) -> None:
        self._digests += digest
        self._places.append(place)
        self._table[slot] = len(self._places)
        if 2 * len(self._places) > len(self._table):
            self._grow()

    def _slot(self, digest: bytes) -> tuple[int, int | None]:
        """Where a digest stands or belongs in the table, and the row that has it."""
        mask = len(self._table) - 1
        slot = int.from_bytes(digest[:8], "little") & mask
        while number := self._table[slot]:
            if self._digests[(number - 1) * _BYTES : number * _BYTES] == digest:
                return slot, number - 1
            slot = (slot + 1) & mask
        return slot, None

    def _grow(self) -> None:
        size = 1 << max(12, (4 * len(self._places)).bit_length())
        self._table = array("I", bytes(4 * size))
        for number in range(len(self._places)):
            slot, _ = self._slot(bytes(self._digests[number * _BYTES : (number + 1) * _BYTES]))
            self._table[slot] = number + 1
