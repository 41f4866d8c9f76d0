"""JSON lines as a stream: one row a line, memory independent of the file's size.

Every line that is not blank is accounted for exactly once, with its own number: as a row, or as the reason why it is
none. Only ``\\n`` ends a line (``\\r\\n`` is taken off; U+2028 and its like are ordinary characters in JSON).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from draftmill.records import Where
from draftmill.sources import json_text
from draftmill.sources.fault import Lost, RowFault
from draftmill.sources.streams import BrokenStream, open_stream

Reading = tuple[Where, dict[str, Any] | str]  # a place, and its decoded row or the reason why there is none

BOM = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 64 << 20  # no prompt is this long; a file without line ends must not fill the memory


def read(path: Path) -> Iterator[Reading]:
    """The rows of a JSON-lines file, plain or compressed. A damaged compressed file ends with one reason."""
    name = str(path)
    with open_stream(path) as stream:
        for number, line in numbered(stream):
            yield Where(name, number), line if isinstance(line, str) else decoded(line)


def decoded(line: bytes) -> dict[str, Any] | str:
    """The row that a line holds, or why it holds none."""
    try:
        return json_text.row(line)
    except RowFault as fault:
        return fault.reason


def numbered(stream: BinaryIO) -> Iterator[tuple[int, bytes | str]]:
    """Every line that is not blank with its number, not decoded yet; or why there is none."""
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(MAX_LINE_BYTES)
            if not line:
                return
            too_long = len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")
            while too_long and line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE_BYTES)
        except BrokenStream as fault:
            yield number, Lost(f"{fault}; the rest of the file cannot be read")
            return
        if too_long:
            yield number, f"the line is longer than {MAX_LINE_BYTES >> 20} MiB"
            continue
        line = (line.removeprefix(BOM) if number == 1 else line).strip()
        if line:
            yield number, line
