"""A ``.json`` file: an array of rows, an object that holds one array of rows, a single row, or JSON lines.

A document is held in memory whole, unlike JSON lines and Parquet; convert a large one to ``.jsonl``. Its rows are
counted from 1 in the order of the array, and one bad row does not cost the others.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from draftmill.records import Where
from draftmill.sources import json_text, lines
from draftmill.sources.fault import Lost, RowFault
from draftmill.sources.lines import BOM, MAX_LINE_BYTES, Reading
from draftmill.sources.streams import BrokenStream, open_stream

_LENIENT = json.JSONDecoder()  # finds where a value ends even if it holds NaN; the value is then decoded strictly


def read(path: Path) -> Iterator[Reading]:
    """The rows of a ``.json`` file, by what it holds."""
    if _holds_lines(path):
        yield from lines.read(path)
        return
    for number, item in enumerate(_whole(path, _items), start=1):
        yield Where(str(path), number), item


def read_one(path: Path) -> Iterator[Reading]:
    """The one row that a file is as a whole, whatever arrays stand in it: an agent's trajectory."""
    for item in _whole(path, lambda data: iter((_strict(data),))):
        yield Where(str(path), 1), item


def _whole(path: Path, items: Callable[[bytes], Iterator[dict[str, Any] | str]]) -> Iterator[dict[str, Any] | str]:
    try:
        with open_stream(path) as stream:
            data = stream.read().removeprefix(BOM).strip()
    except BrokenStream as fault:
        yield Lost(f"{fault}; a document is read whole or not at all")
        return
    yield from items(data)


def _holds_lines(path: Path) -> bool:
    """Whether every line is an object of its own, judged by the first two lines that are not blank."""
    found: list[bytes] = []
    try:
        with open_stream(path) as stream:
            while len(found) < 2 and (line := stream.readline(MAX_LINE_BYTES)):
                found += [stripped] if (stripped := line.removeprefix(BOM).strip()) else []
    except BrokenStream:
        pass
    if not found or found[0][:1] != b"{":
        return False
    if len(found) > 1:
        return found[0][-1:] == b"}" or found[1][:1] == b"{"
    return len(found[0]) < MAX_LINE_BYTES and _wrapped(found[0]) is None


def _items(data: bytes) -> Iterator[dict[str, Any] | str]:
    if data[:1] == b"[":
        yield from _elements(data)
        return
    if not data:
        return
    rows = _wrapped(data)
    if rows is not None:
        yield from rows
        return
    yield _strict(data)


def _wrapped(data: bytes) -> list[dict[str, Any]] | None:
    """The rows of an object that holds one array of objects, unless these are chat messages (then it is a row)."""
    try:
        whole = json_text.row(data)
    except RowFault:
        return None
    arrays = [v for v in whole.values() if isinstance(v, list) and v and all(isinstance(i, dict) for i in v)]
    if len(arrays) != 1 or any("role" in item or "from" in item for item in arrays[0]):
        return None
    return arrays[0]


def _elements(data: bytes) -> Iterator[dict[str, Any] | str]:
    """The elements of an array, one after the other; a fault of syntax ends it with one reason."""
    text = data.decode("utf-8", "surrogateescape")  # an invalid byte spoils its own element only
    at, first = 1, True
    try:
        while True:
            at = _blank(text, at)
            if text[at : at + 1] == "]":
                break
            if not first:
                if text[at : at + 1] != ",":
                    raise json.JSONDecodeError("Expecting ',' or ']'", text, at)
                at = _blank(text, at + 1)
            start, first = at, False
            _, at = _LENIENT.raw_decode(text, start)
            yield _strict(text[start:at].encode("utf-8", "surrogateescape"))
    except (json.JSONDecodeError, RecursionError) as error:
        place = f"line {error.lineno} column {error.colno}" if isinstance(error, json.JSONDecodeError) else "this row"
        what = error.msg.lower() if isinstance(error, json.JSONDecodeError) else "nested too deeply"
        yield Lost(f"not valid JSON at {place}: {what}; the rest of the file cannot be read")


def _blank(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\n", "\r", "\t") and at < len(text):
        at += 1
    return at


def _strict(data: bytes) -> dict[str, Any] | str:
    try:
        return json_text.row(data)
    except RowFault as fault:
        return fault.reason
