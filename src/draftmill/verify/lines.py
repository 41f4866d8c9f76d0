"""Rows as they lie in a file, ours or another's: JSON lines (plain, gzip or zstd) and Parquet, part by part.

A part is a few megabytes that one process looks at. Ids become arrays without an object an id.
"""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from draftmill import ids as numbers
from draftmill.errors import SourceError
from draftmill.sources import tokenized
from draftmill.sources.fault import RowFault

PART_BYTES = 4 << 20
_PARQUET_ROWS = 1024
Ids = npt.NDArray[Any]  # whole numbers: uint32 where all are 0 or more, else int64
Mask = npt.NDArray[np.uint8]

_NOTHING = msgspec.Raw()
_SPACES = b" \t\r"
_TEXTS = ("messages", "conversations", "choices", "text", "response", "completion", "content")
_CLOSES = ("</think>", "[/THINK]", "</seed:think>", "<think>")


@dataclass(slots=True)
class Row:
    """One row. ``fault`` says why there are no ids; ``legacy`` that it is text, with or without ``thinking`` in it."""

    ids: Ids
    mask: Mask
    fault: str = ""
    mask_fault: str = ""
    legacy: bool = False
    thinking: bool = False
    id: Any = None
    position: Any = None
    turn: Any = 0
    finish: Any = None
    prompt_tokens: Any = None
    completion_tokens: Any = None


@dataclass(frozen=True)
class Part:
    """A piece of a file: the bytes from ``start`` to ``end``, or lines that were read already, or rows of Parquet."""

    path: Path
    start: int = 0
    end: int = 0
    lines: bytes | None = None


class _Line(msgspec.Struct):
    input_ids: msgspec.Raw = _NOTHING
    loss_mask: msgspec.Raw = _NOTHING
    id: Any = None
    position: Any = None
    turn: Any = 0
    finish_reason: Any = None
    prompt_tokens: Any = None
    completion_tokens: Any = None


_line = msgspec.json.Decoder(_Line)
_EMPTY: Ids = np.zeros(0, np.uint32)
_NO_MASK: Mask = np.zeros(0, np.uint8)


def parts(path: Path, size: int = PART_BYTES) -> Iterator[Part]:
    """A file cut into parts of about ``size`` bytes, at line ends. Raises SourceError for a kind that is not known."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        rows = _parquet(path).metadata.num_rows
        yield from (Part(path, start, min(start + _PARQUET_ROWS, rows)) for start in range(0, rows, _PARQUET_ROWS))
    elif name.endswith((".gz", ".zst")):
        yield from _unpacked(path, size)
    elif name.endswith((".jsonl", ".json", ".ndjson")):
        end = path.stat().st_size
        with path.open("rb") as file:
            start = 0
            while start < end:
                file.seek(min(start + size, end))
                file.readline()
                yield Part(path, start, file.tell())
                start = file.tell()
    else:
        raise SourceError(f"{path}: is none of .jsonl, .jsonl.gz, .jsonl.zst and .parquet")


def rows(part: Part) -> Iterator[Row]:
    """The rows of a part, one for every line that is not blank."""
    for line in unread(part):
        yield line if isinstance(line, Row) else read(line)


def unread(part: Part) -> Iterator[bytes | Row]:
    """The same as lines that nobody has read yet, where the file has such."""
    if part.path.suffix.lower() == ".parquet":
        yield from _parquet_rows(part)
        return
    data = part.lines
    if data is None:
        with part.path.open("rb") as file:
            file.seek(part.start)
            data = file.read(part.end - part.start)
    for line in data.splitlines():
        if line.strip():
            yield line


def read(line: bytes) -> Row:
    """The row of one line."""
    try:
        found = _line.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return _unread(line, str(error))
    if not bytes(found.input_ids) or not bytes(found.loss_mask):
        return _unread(line, "")
    try:
        ids = as_ids(bytes(found.input_ids))
    except (msgspec.DecodeError, msgspec.ValidationError, OverflowError) as error:
        return Row(_EMPTY, _NO_MASK, fault=f"input_ids: {error}")
    mask, fault = as_mask(bytes(found.loss_mask))
    return Row(
        ids,
        mask,
        mask_fault=fault,
        id=found.id,
        position=found.position,
        turn=found.turn,
        finish=found.finish_reason,
        prompt_tokens=found.prompt_tokens,
        completion_tokens=found.completion_tokens,
    )


def as_ids(raw: bytes) -> Ids:
    """The ids of a JSON list. Raises msgspec.DecodeError or ValidationError."""
    found = numbers.read(raw.translate(None, _SPACES))
    packed = numbers.packed(found)
    return np.frombuffer(packed, np.uint32) if packed is not None else np.array(found, np.int64)


def as_mask(raw: bytes) -> tuple[Mask, str]:
    """A mask of 0 and 1, and what is wrong with it."""
    inner = np.frombuffer(raw.translate(None, _SPACES), np.uint8)[1:-1]
    digits = inner[::2] - 48
    if len(inner) % 2 and (inner[1::2] == 44).all() and digits.max() <= 1:
        return digits, ""
    try:
        values = msgspec.json.decode(raw, type=list[float])  # true and false are none of JSON's numbers
    except (msgspec.DecodeError, msgspec.ValidationError):
        try:
            values = [float(v) for v in msgspec.json.decode(raw, type=list[bool])]
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            return _NO_MASK, str(error)
    odd = next((value for value in values if value not in (0, 1)), None)
    return np.array([value > 0 for value in values], np.uint8), "" if odd is None else f"holds {odd:g}"


def _unread(line: bytes, reason: str) -> Row:
    """A row in another shape: labels in place of a mask, text without ids, or no row at all."""
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return Row(_EMPTY, _NO_MASK, fault=str(error))
    return _of_columns(raw, reason)


def _of_columns(raw: dict[str, Any], reason: str = "") -> Row:
    if raw.get("input_ids") is None and any(raw.get(name) is not None for name in _TEXTS):
        said = " ".join(_contents(raw))
        return Row(_EMPTY, _NO_MASK, legacy=True, thinking=any(close in said for close in _CLOSES))
    try:
        found = tokenized.read(raw)
    except RowFault as fault:
        return Row(_EMPTY, _NO_MASK, fault=reason or str(fault))
    return Row(np.array(found.input_ids, np.int64), np.array(found.loss_mask, np.uint8))


def _contents(value: Any) -> Iterator[str]:
    """Whatever text stands in a row, the reasoning that has a field of its own left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("reasoning_content", "reasoning", "thinking"):
                yield from _contents(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _contents(inner)


def _unpacked(path: Path, size: int) -> Iterator[Part]:
    try:
        with _opened(path) as file:
            while lines := file.readlines(size):
                yield Part(path, lines=b"".join(lines))
    except (OSError, EOFError) as error:
        raise SourceError(f"{path}: cannot be unpacked: {error}", "fetch it again; its end may be missing") from error


def _opened(path: Path) -> Any:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rb")
    import zstandard

    return zstandard.open(path, "rb")


def _parquet(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet

        return parquet.ParquetFile(path)
    except Exception as error:  # pyarrow raises errors of its own
        raise SourceError(f"{path}: cannot be read as Parquet: {error}") from error


def _parquet_rows(part: Part) -> Iterator[Row]:
    at = 0
    for batch in _parquet(part.path).iter_batches(batch_size=_PARQUET_ROWS):
        if at >= part.end:
            return
        if at + len(batch) > part.start:
            for raw in batch.slice(max(0, part.start - at), part.end - max(at, part.start)).to_pylist():
                yield _of_columns(raw)
        at += len(batch)


def hash_of(ids: Ids) -> int:
    """64 bits of ids, never 0."""
    digest = hashlib.blake2b(ids.astype(np.uint32, copy=False).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1
