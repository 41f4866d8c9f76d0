"""The formats that are known, and which of them a dataset has.

A new format is one module with NAME, ``recognise`` and ``read``, and one line in FORMATS.
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from draftmill.errors import SourceError
from draftmill.sources import (
    alpaca,
    bfcl,
    glaive,
    hermes,
    humaneval,
    json_text,
    messages,
    opencodeinstruct,
    prompt,
    reasoning,
    sharegpt,
    sweagent,
    tokenized,
    trajectory,
    turns,
    ultrachat,
    xlam,
)
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded
from draftmill.sources.tokenized import Tokenized

AUTO = "auto"


class Format(Protocol):
    """One dataset format: a module. ``column`` is the recipe's, where a dataset calls its column otherwise."""

    NAME: str

    def recognise(self, row: Mapping[str, Any], column: str | None = None) -> str | None:
        """Why a row looks like this format, in words, or None."""

    def read(self, row: Mapping[str, Any], column: str | None = None) -> Recorded | Tokenized:
        """The row's conversation, or its ids. Raises RowFault, and nothing else, if it has none."""


# in the text of other formats' turns: their marks need not stand in every row, and they read rows without them too
DIALECTS: tuple[Format, ...] = (hermes, reasoning)
FORMATS: tuple[Format, ...] = (  # the most specific first: it wins where two recognise about equally many rows
    tokenized,
    glaive,
    bfcl,
    xlam,
    humaneval,
    sweagent,
    trajectory,
    *DIALECTS,
    messages,
    sharegpt,
    ultrachat,
    turns,
    opencodeinstruct,
    alpaca,
    prompt,
)
_ENOUGH = 0.1  # of the rows must show a dialect's marks
_NEARLY = 0.9  # of the rows that a plainer format has: a few broken ones must not decide it


def known() -> list[str]:
    """The names that a recipe may use, ``auto`` first."""
    return [AUTO, *(f.NAME for f in FORMATS)]


def named(name: str, place: str) -> Format:
    """The format of this name. Raises SourceError that lists the known ones."""
    for candidate in FORMATS:
        if name == candidate.NAME:
            return candidate
    close = difflib.get_close_matches(name.lower(), known(), n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise SourceError(f"{place}: unknown format {name!r}", f"{hint}the formats are {', '.join(known())}")


def choose(name: str, rows: Sequence[dict[str, Any]], column: str | None, place: str) -> tuple[Format, str]:
    """The format of a dataset by its first rows, and why. ``name`` is the recipe's: ``auto`` or a format.

    Raises SourceError if the rows are of no known format, or if not one of them is of the format that was asked for.
    """
    if name != AUTO:
        chosen = named(name, place)
        if not any(chosen.recognise(row, column) or _fault(chosen, row, column) is None for row in rows):
            reason = _fault(chosen, rows[0], column)
            raise SourceError(f"{place}: no {name} in the first {len(rows)} rows: {reason}", _advice(rows, column))
        return chosen, f"format: {name} in the recipe"
    seen = [sum(bool(f.recognise(row, column)) for row in rows) for f in FORMATS]
    read = [_count_read(f, rows, column) if count else 0 for f, count in zip(FORMATS, seen, strict=True)]
    if not any(seen):
        raise SourceError(f"{place}: no known format in the first {len(rows)} rows", _advice(rows, column))
    # what most rows look like, of what can be read: a text column stands in many formats, and is read in every row
    fit = {
        n: _weight(FORMATS[n], seen[n], len(rows)) for n in range(len(FORMATS)) if seen[n] and 2 * read[n] >= max(read)
    }
    best = next(n for n, weight in fit.items() if weight >= _NEARLY * max(fit.values()))
    chosen = FORMATS[best]
    why = next(why for row in rows if (why := chosen.recognise(row, column)))
    return chosen, f"{why}; {read[best]} of the first {len(rows)} rows can be read so"


def attempt(candidate: Format, row: Mapping[str, Any], column: str | None) -> Recorded | Tokenized:
    """Read a row. Raises RowFault, for one that is nested too deeply too."""
    try:
        return candidate.read(row, column)
    except RecursionError:
        raise RowFault("the row is nested too deeply") from None


def _weight(candidate: Format, seen: int, rows: int) -> int:
    """How many rows speak for a format."""
    return rows if candidate in DIALECTS and seen >= _ENOUGH * rows else seen


def _count_read(candidate: Format, rows: Sequence[dict[str, Any]], column: str | None) -> int:
    return sum(_fault(candidate, row, column) is None for row in rows)


def _fault(candidate: Format, row: dict[str, Any], column: str | None) -> str | None:
    try:
        attempt(candidate, row, column)
    except RowFault as fault:
        return fault.reason
    return None


def _advice(rows: Sequence[dict[str, Any]], column: str | None) -> str:
    seen: dict[str, object] = {}
    for row in rows:
        seen |= {name: value for name, value in row.items() if seen.get(name) is None}
    kinds = (f"{name} ({json_text.kind(value)})" for name, value in seen.items())
    columns = f"the columns are {', '.join(kinds) or 'none'}"
    if column and column not in seen:
        close = difflib.get_close_matches(column, seen, n=1)
        return f"there is no column {column!r}{f', did you mean {close[0]}?' if close else ''}; {columns}"
    formats = ", ".join(candidate.NAME for candidate in FORMATS)
    return f"{columns}; the formats are {formats}; `column` names a text column of another name"
