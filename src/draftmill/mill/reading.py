"""The first pass over a dataset: rows of the source → conversations for the spool, with all that decides their fate.

A chunk of rows is read by whichever process is free; what it says of them is all that the preparation holds in memory.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from draftmill.errors import SourceError
from draftmill.ids import encode
from draftmill.ledger.order import canonical, conversation_id
from draftmill.recipe import Dataset
from draftmill.records import Conversation, FilteredRow, TokenizedRow, UnreadRow
from draftmill.sources.duplicates import Signature, Signer, text_of
from draftmill.sources.files import Raw
from draftmill.sources.language import Detector
from draftmill.sources.row import RowReader
from draftmill.sources.tool_text import lift

_CHUNK_ROWS = 512
_CHUNK_BYTES = 4 << 20  # rows of agent trajectories can be megabytes
KEY_BYTES = 16
FILTERED, LANGUAGE = "filtered", "language"

NO_CONVERSATION = Conversation([])


class Spooled(msgspec.Struct, omit_defaults=True):
    """One conversation on its way through the spool, or a row that is tokenized already."""

    where: str
    conversation: Conversation
    input_ids: list[int] = []
    loss_mask: list[int] | None = None


class Chunk(msgspec.Struct):
    """What became of a chunk of rows. Of those that are prompts, in their order: the ``lengths`` of their lines in the
    spool (uint32), the ``keys`` of their contents (16 bytes each), the ``ids`` (16 bytes each, n a row) that they have
    where no row before holds the same, and their ``signatures`` where these are wanted."""

    rows: int = 0
    unread: list[UnreadRow] = []
    dropped: dict[str, int] = {}
    lifted: int = 0
    lengths: bytes = b""
    keys: bytes = b""
    ids: bytes = b""
    signatures: list[Signature] = []


class Reading:
    """Reads chunks of one dataset. ``vocabulary``: ids are below it; ``sign``: which copies are looked for, as the
    recipe's ``duplicates`` says it."""

    def __init__(self, dataset: Dataset, format: str, vocabulary: int, sign: str) -> None:
        self._made_of = dataset, format, vocabulary, sign
        self._dataset = dataset
        self._vocabulary = vocabulary
        self._rows = RowReader(dataset, format)
        self._signer = Signer(near=sign == "near") if sign != "keep" else None
        self._detector = Detector(dataset.languages) if dataset.languages else None

    def __reduce__(self) -> Any:
        return Reading, self._made_of

    def __call__(self, raws: list[Raw]) -> tuple[Chunk, bytes]:
        """What became of the rows, and the lines of the spool."""
        unread: list[UnreadRow] = []
        dropped: dict[str, int] = {}
        lines: list[bytes] = []
        keys: list[bytes] = []
        ids: list[bytes] = []
        contents: list[Conversation | tuple[list[int], list[int]]] = []
        lifted = 0
        for raw in raws:
            row = self._rows.row(raw)
            if isinstance(row, TokenizedRow):
                row = self._fitting(row)
            if isinstance(row, UnreadRow):
                unread.append(row)
                continue
            if isinstance(row, FilteredRow):
                dropped[FILTERED] = dropped.get(FILTERED, 0) + 1
                continue
            content: Conversation | tuple[list[int], list[int]]
            if isinstance(row, TokenizedRow):
                content = row.input_ids, row.loss_mask
                line = encode(Spooled(str(row.where), NO_CONVERSATION, row.input_ids, row.loss_mask))
            else:
                if self._detector and not self._detector.wanted(text_of(row.conversation)):
                    dropped[LANGUAGE] = dropped.get(LANGUAGE, 0) + 1
                    continue
                content, tools = self._native(row.conversation)
                lifted += tools
                line = encode(Spooled(str(row.where), content))
            key = canonical(content)
            keys.append(hashlib.blake2b(key, digest_size=KEY_BYTES).digest())
            ids += (bytes.fromhex(conversation_id(self._dataset.name, key, each)) for each in range(self._dataset.n))
            lines.append(line + b"\n")
            contents.append(content)
        chunk = Chunk(
            rows=len(raws),
            unread=unread,
            dropped=dropped,
            lifted=lifted,
            lengths=array("I", map(len, lines)).tobytes(),
            keys=b"".join(keys),
            ids=b"".join(ids),
            signatures=self._signatures(contents),
        )
        return chunk, b"".join(lines)

    def _signatures(self, contents: list[Conversation | tuple[list[int], list[int]]]) -> list[Any]:
        if self._signer is None or not contents:
            return []
        if isinstance(contents[0], tuple):  # a format gives rows of one kind
            return list(self._signer.sign_tokenized([c for c in contents if isinstance(c, tuple)]))
        return list(self._signer.sign([c for c in contents if isinstance(c, Conversation)]))

    def _native(self, conversation: Conversation) -> tuple[Conversation, bool]:
        """The conversation, with tools that stand as text in its system prompt lifted out where that is asked for."""
        if not self._dataset.native_tools:
            return conversation, False
        lifted = lift(conversation)
        return lifted.conversation, lifted.tools > 0

    def _fitting(self, row: TokenizedRow) -> TokenizedRow | UnreadRow:
        """The row, or why its ids are not the target's. Raises SourceError for settings that ask for answers to it."""
        asked = [f"n: {self._dataset.n}"] if self._dataset.n > 1 else []
        asked += ["system"] if self._dataset.system is not None else []
        if asked:
            name, what = self._dataset.name, " and ".join(asked)
            raise SourceError(f"dataset {name}: its rows are tokenized already: {what} cannot apply", "take it out")
        highest = max(row.input_ids)
        if highest < self._vocabulary:
            return row
        place = f"item {row.input_ids.index(highest) + 1} of 'input_ids' is {highest}"
        return UnreadRow(row.where, f"{place}: the model's vocabulary ends at {self._vocabulary - 1}")


def chunks(raws: Iterable[Raw]) -> Iterator[list[Raw]]:
    """The rows in chunks; the same source gives the same chunks."""
    chunk: list[Raw] = []
    size = 0
    for raw in raws:
        chunk.append(raw)
        size += len(raw[2]) if isinstance(raw[2], bytes) else 0
        if len(chunk) == _CHUNK_ROWS or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def skipped(raws: Iterator[Raw], count: int) -> Iterator[Raw]:
    """The rows behind the first ``count``."""
    next(islice(raws, count, count), None)
    return raws
