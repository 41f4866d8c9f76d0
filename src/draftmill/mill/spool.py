"""The conversations of a dataset that stay, on disk; their ids, ranks and places in memory.

What the first pass over the rows leaves: chunks that were read are taken in their order, and it is decided of each row
whether it is a copy and which ids it has.
"""

from array import array
from collections import Counter
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from draftmill.errors import SourceError
from draftmill.ledger.order import ID_BYTES, canonical, conversation_id, rank
from draftmill.mill.copies import EXACT, Copies
from draftmill.mill.crew import Crew
from draftmill.mill.parts import Parts
from draftmill.mill.reading import KEY_BYTES, Chunk, Reading, Spooled, chunks, skipped
from draftmill.mill.rendering import Batch
from draftmill.recipe import Dataset
from draftmill.records import UnreadRow
from draftmill.sources import Source

_DECIDED = 4096  # rows of which it is decided at once, so that their wording is known when near copies are looked for

_pack = msgspec.msgpack.Encoder().encode
_chunk = msgspec.msgpack.Decoder(Chunk)


class Spool:
    """``copies`` looks for rows that say the same, where any dataset asks for that; ``seed`` is of the ranks.

    ``read`` rows were read, ``lifted`` of them had tools as text, ``repeated`` say what an earlier one says; ``unread``
    are those that could not be, ``dropped`` counts those that are left out, by reason.
    """

    def __init__(self, dataset: Dataset, seed: int, copies: Copies | None) -> None:
        self._dataset = dataset
        self._seed = seed
        self._copies = copies
        self.read = self.lifted = self.repeated = 0
        self.unread: list[UnreadRow] = []
        self.dropped: Counter[str] = Counter()
        self._ids = bytearray()
        self._ranks = array("Q")
        self._offsets = array("Q")
        self._lengths = array("I")
        self._seen: dict[bytes, int] = {}
        self._waiting: list[Chunk] = []
        self._decided = self._spooled = 0  # rows and bytes of the spool that were decided of

    def __len__(self) -> int:
        """How many prompts its rows could be."""
        return len(self._ranks)

    def fill(self, source: Source, spool: Parts, reading: Reading, crew: Crew, tell: Callable[[int], None]) -> None:
        """Every readable conversation to disk, those that are there already first. ``tell`` hears of the rows read.

        Raises SourceError for a source that changes meanwhile, breaks off, or has no row that stays.
        """
        before = source.fingerprint()
        for note in spool.found():
            self._take(_chunk.decode(note), spool.path)
        for chunk, lines in crew.map(reading, chunks(skipped(source.raw(), self.read))):
            spool.add(lines, _pack(chunk))
            self._take(chunk, spool.path)
            tell(self.read)
        self._decide(spool.path)
        self._seen.clear()
        name = self._dataset.name
        if source.fingerprint() != before:
            raise SourceError(f"dataset {name}: its source was written to while it was read", "run it again")
        if (lost := [row for row in self.unread if row.lost]) and self._dataset.incomplete == "refuse":
            more = f" (and {len(lost) - 1} more files)" if len(lost) > 1 else ""
            raise SourceError(
                f"dataset {name}: the rest of {lost[0].where.file} is missing: line {lost[0].where.line}: "
                f"{lost[0].reason}{more}",
                f"get the whole file; or write `incomplete: accept` for {name} to make do with the rows that are there",
            )
        if not self._ids:
            raise self.none_left()

    def order(self) -> Any:
        """The places of its prompts by rank, as an array."""
        return np.argsort(np.frombuffer(self._ranks, np.uint64), kind="stable")

    def batch(self, places: Any, path: Path, most: int) -> tuple[Batch, int]:
        """The first of these places for the rendering, of ``most`` bytes together or just above, and how many."""
        size, taken = 0, []
        for place in places.tolist():
            taken.append(place)
            size += self._lengths[place]
            if size > most:
                break
        offsets, lengths = [self._offsets[place] for place in taken], [self._lengths[place] for place in taken]
        ids = b"".join(self._ids[place * ID_BYTES : (place + 1) * ID_BYTES] for place in taken)
        return Batch(str(path), offsets, lengths, ids), len(taken)

    def none_left(self, more: "Counter[str] | None" = None) -> SourceError:
        """Why there is no prompt; ``more`` was dropped since."""
        parts = [f"{rows} dropped as {why}" for why, rows in (self.dropped + (more or Counter())).items()]
        if self.unread:
            parts.append(
                f"{len(self.unread)} cannot be read, the first: {self.unread[0].where}: {self.unread[0].reason}"
            )
        why = "; ".join(parts) or "there are none"
        return SourceError(f"dataset {self._dataset.name}: none of its {self.read} rows is left as a prompt: {why}")

    def _take(self, chunk: Chunk, spool: Path) -> None:
        """Count a chunk, whose lines stand next in the spool, and decide of its rows once there are enough of them."""
        self.read += chunk.rows
        self.unread += chunk.unread
        self.dropped.update(chunk.dropped)
        self.lifted += chunk.lifted
        self._waiting.append(chunk)
        if sum(len(each.lengths) for each in self._waiting) >= _DECIDED * self._lengths.itemsize:
            self._decide(spool)

    def _decide(self, spool: Path) -> None:
        """Which of the rows that wait are copies, and the ids of the others."""
        width = self._dataset.n * ID_BYTES
        signatures = [signature for chunk in self._waiting for signature in chunk.signatures]
        whys = iter(self._copies.why(signatures, self._decided) if self._copies else repeat(None))
        for chunk in self._waiting:
            lengths = array("I")
            lengths.frombytes(chunk.lengths)
            self._decided += len(lengths)
            for number, length in enumerate(lengths):
                if (why := next(whys)) is not None:
                    self.dropped[why] += 1
                    self.repeated += why == EXACT
                else:
                    key = chunk.keys[number * KEY_BYTES : (number + 1) * KEY_BYTES]
                    self._keep(key, chunk.ids[number * width : (number + 1) * width], length, spool)
                self._spooled += length
        self._waiting.clear()

    def _keep(self, key: bytes, ids: bytes, length: int, spool: Path) -> None:
        """A row that stays: its ids, one for each answer that is asked of it."""
        n = self._dataset.n
        if earlier := self._seen.get(key, 0):
            self.repeated += 1
            ids = self._later_ids(spool, self._spooled, length, earlier)
        if (self._dataset.duplicates or "keep") == "keep":
            self._seen[key] = earlier + n
        for each in range(n):
            id = ids[each * ID_BYTES : (each + 1) * ID_BYTES]
            self._ids += id
            self._ranks.append(rank(self._seed, id.hex()))
            self._offsets.append(self._spooled)
            self._lengths.append(length)

    def _later_ids(self, spool: Path, offset: int, length: int, earlier: int) -> bytes:
        """The ids of a conversation that stood ``earlier`` times before."""
        with spool.open("rb") as file:
            file.seek(offset)
            spooled = msgspec.json.decode(file.read(length), type=Spooled)
        masked = spooled.loss_mask is not None
        content = canonical((spooled.input_ids, spooled.loss_mask or []) if masked else spooled.conversation)
        occurrences = range(earlier, earlier + self._dataset.n)
        return b"".join(bytes.fromhex(conversation_id(self._dataset.name, content, each)) for each in occurrences)
