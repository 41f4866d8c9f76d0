"""What a start needs to know of two large files, beside them: so that a resume does not read them from end to end.

``prompts.index`` holds the id and the line's offset of every prompt; ``raw_responses.index`` one fixed-size record for
every line of the journal. Neither is ever trusted over its file: an index that is missing, damaged, or not of the file
that lies there now is made again by reading that file, and what was appended since is read from where the index ends.
"""

import hashlib
import os
import zlib
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from struct import Struct, error
from typing import IO, NamedTuple

from draftmill.errors import StorageError
from draftmill.journal.files import replacing
from draftmill.journal.reader import LARGEST, Entry, UnknownLine, read_line, scan_from
from draftmill.records import Ended, Finish

_HEADER = Struct("<8s2Q32sI")  # kind and version, records, bytes of the file that they stand for, its digest, checksum
_JOURNAL, _PROMPTS = b"dmjourn3", b"dmpromp2"
# id, offset, position, turn, prompt tokens, completion tokens, limit, continued, finish and flags, why it ended
_RECORD = Struct("<16sQ6I2B")
FIELDS = [  # the same for numpy
    ("id", "<u8", (2,)),
    ("offset", "<u8"),
    *((name, "<u4") for name in ("position", "turn", "prompt_tokens", "completion_tokens", "limit", "continued")),
    ("flags", "u1"),
    ("ended", "u1"),
]
FINISHES, _ENDED = tuple(Finish), (None, *Ended)  # a finish is the two low bits of the flags
PARTIAL, REDRAWN, LOOK, MORE = 4, 8, 16, 32  # LOOK: no line that a record can hold; the journal's own line is read
_ID = 16
_CHUNK = 4096 * _RECORD.size
_BLOCK, _BLOCKS = 4096, 64  # of a file that are looked at: all of a small one, the ends and some between of a large one
WORTH = 1 << 18  # bytes of a file below which no index is written
_GROWTH = 16  # an index is written again when a 16th of the journal is not in it


def entries(journal: Path, index: Path, worth: int = WORTH, vocab_size: int = LARGEST) -> Iterator[Entry | UnknownLine]:
    """What ``scan`` gives, through the index as far as it reaches. The index is renewed where that is worth it."""
    if not journal.exists():
        return
    with journal.open("rb") as file:
        count, covered = _covers(index, file)
        size = os.fstat(file.fileno()).st_size
        indexed: Iterator[bytes] = _chunks(index, count) if count else iter(())
        old = chain.from_iterable(map(_RECORD.iter_unpack, indexed))
        for number, record in enumerate(old, start=1):
            yield _entry(record) if not record[8] & LOOK else read_line(file, record[1], number, vocab_size)
        rest = scan_from(file, covered, count + 1, vocab_size)
        if size - covered < max(worth, size // _GROWTH if covered else 0, 1):
            yield from (entry for entry, _ in rest)
            return
        fresh = bytearray()
        for entry, end in rest:
            if end > covered:  # a last line without its newline is read again once it has one
                fresh += _record(entry, covered)
                covered = end
            yield entry
        _write(index, _JOURNAL, count + len(fresh) // _RECORD.size, covered, file, chain(_kept(index, count), [fresh]))


class Indexed(NamedTuple):
    """The records of an index as they lie there, ``FIELDS`` each: of so many lines, in so many bytes of the journal."""

    records: bytes
    lines: int
    covered: int


def read_indexed(journal: Path, index: Path) -> Indexed:
    """All records of an index at once, for whoever works on them as arrays; none where it is not this journal's.

    Nothing is written: an index that is behind stays so.
    """
    try:
        with journal.open("rb") as file:
            count, covered = _covers(index, file)
        return Indexed(b"".join(_chunks(index, count)) if count else b"", count, covered)
    except OSError:
        return Indexed(b"", 0, 0)


class PromptIndex:
    """The ids of a dataset's prompts, 16 bytes each, and where their lines start.

    ``tokens`` and ``supervised`` count, of each row that is passed through, all its tokens and those that its mask
    supervises; they are 0 of every other. Where nothing is passed through, they are empty.
    """

    def __init__(
        self,
        ids: bytes,
        offsets: "array[int]",
        tokens: "array[int] | None" = None,
        supervised: "array[int] | None" = None,
    ) -> None:
        self.ids = ids
        self.offsets = offsets
        self.tokens = tokens or array("I")
        self.supervised = supervised or array("I")


def read_prompt_index(prompts: Path, index: Path) -> PromptIndex | None:
    """The index of the prompts file as it lies there; None where it has to be made."""
    with prompts.open("rb") as file:
        header = _header(index, _PROMPTS)
        size = os.fstat(file.fileno()).st_size
        if header is None or header[2] != size or header[3] != _digest(file, size, _changed(file)):
            return None
    count = header[1]
    body = index.read_bytes()[_HEADER.size :]
    plain = count * (_ID + 8)
    if len(body) not in (plain, plain + 8 * count) or zlib.crc32(body) != header[4]:
        return None
    offsets, counts = array("q"), array("I")
    offsets.frombytes(memoryview(body)[count * _ID : plain])
    counts.frombytes(memoryview(body)[plain:])
    return PromptIndex(body[: count * _ID], offsets, counts[:count], counts[count:])


def write_prompt_index(prompts: Path, index: Path, made: PromptIndex, worth: int) -> None:
    with prompts.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size >= worth and len(made.ids) == _ID * len(made.offsets):
            parts = [made.ids, made.offsets.tobytes(), made.tokens.tobytes(), made.supervised.tobytes()]
            _write(index, _PROMPTS, len(made.offsets), size, file, parts, _changed(file))


def _record(entry: Entry | UnknownLine, offset: int) -> bytes:
    if isinstance(entry, Entry):
        flags = FINISHES.index(entry.finish_reason) | PARTIAL * entry.partial | REDRAWN * entry.redrawn
        flags |= MORE * entry.more
        try:
            id = bytes.fromhex(entry.id)
            if id.hex() == entry.id and len(id) == _ID:
                return _RECORD.pack(
                    id,
                    offset,
                    entry.position,
                    entry.turn,
                    entry.prompt_tokens,
                    entry.completion_tokens,
                    entry.limit,
                    entry.continued,
                    flags,
                    _ENDED.index(entry.ended),
                )
        except (ValueError, error):  # no such id, or a number that needs more room
            pass
    return _RECORD.pack(b"", offset, 0, 0, 0, 0, 0, 0, LOOK, 0)


def _entry(record: tuple[bytes, int, int, int, int, int, int, int, int, int]) -> Entry:
    id, offset, position, turn, prompt_tokens, completion_tokens, limit, continued, flags, ended = record
    return Entry(
        id.hex(),
        position,
        turn,
        prompt_tokens,
        completion_tokens,
        FINISHES[flags & 3],
        limit,
        flags & PARTIAL != 0,
        continued,
        flags & REDRAWN != 0,
        flags & MORE != 0,
        _ENDED[ended],
        offset,
    )


def _covers(index: Path, file: IO[bytes]) -> tuple[int, int]:
    """How many lines, in how many bytes, an index has of this journal; none where it is not this journal's."""
    header = _header(index, _JOURNAL)
    if header is None or header[2] > os.fstat(file.fileno()).st_size or header[3] != _digest(file, header[2]):
        return 0, 0
    checksum = size = 0
    for chunk in _chunks(index, header[1]):
        checksum, size = zlib.crc32(chunk, checksum), size + len(chunk)
    return (header[1], header[2]) if checksum == header[4] and size == header[1] * _RECORD.size else (0, 0)


def _header(index: Path, kind: bytes) -> tuple[bytes, int, int, bytes, int] | None:
    try:
        with index.open("rb") as file:
            data = file.read(_HEADER.size)
    except OSError:
        return None
    found = _HEADER.unpack(data) if len(data) == _HEADER.size else None
    return found if found and found[0] == kind else None


def _chunks(index: Path, count: int) -> Iterator[bytes]:
    with index.open("rb") as file:
        file.seek(_HEADER.size)
        left = count * _RECORD.size
        while left and (chunk := file.read(min(left, _CHUNK))):
            left -= len(chunk)
            yield chunk


def _kept(index: Path, count: int) -> Iterable[bytes | bytearray]:
    return _chunks(index, count) if count else ()


def _write(
    index: Path,
    kind: bytes,
    count: int,
    covered: int,
    file: IO[bytes],
    parts: Iterable[bytes | bytearray],
    changed: int = 0,
) -> None:
    """Put an index in place, whole or not at all. One that cannot be written is done without."""
    try:
        with replacing(index) as temporary, temporary.open("wb") as out:
            out.write(bytes(_HEADER.size))
            checksum = 0
            for part in parts:
                checksum = zlib.crc32(part, checksum)
                out.write(part)
            out.seek(0)
            out.write(_HEADER.pack(kind, count, covered, _digest(file, covered, changed), checksum))
    except StorageError:
        pass


def _changed(file: IO[bytes]) -> int:
    """When a file that is never appended to was written last."""
    return os.fstat(file.fileno()).st_mtime_ns


def digest_of(path: Path, first: int | None = None) -> str:
    """A digest of a file that costs little however large it is: of all of a small one, of blocks all over a large one;
    "" where there is none. Of its ``first`` bytes where that is given."""
    try:
        with path.open("rb") as file:
            return _digest(file, os.fstat(file.fileno()).st_size if first is None else first).hex()
    except FileNotFoundError:
        return ""


def _digest(file: IO[bytes], size: int, changed: int = 0) -> bytes:
    """What the first ``size`` bytes of a file hold, its length included: of a large one, blocks all over it."""
    hash = hashlib.blake2b(b"%d %d" % (size, changed), digest_size=32)
    blocks = -(-size // _BLOCK)
    for number in range(min(blocks, _BLOCKS)):
        start = number * _BLOCK if blocks <= _BLOCKS else number * (size - _BLOCK) // (_BLOCKS - 1)
        hash.update(os.pread(file.fileno(), min(_BLOCK, size - start), start))
    return hash.digest()
