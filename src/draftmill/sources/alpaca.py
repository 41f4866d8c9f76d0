"""Alpaca: ``instruction, input, output``, where ``input`` is what the instruction works on and often empty.

Also the seeds that it was made of (``instances: [{input, output}]``), and the ``history`` of pairs that later tools
added.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.records import Message
from draftmill.sources import json_text, prompt
from draftmill.sources.canonical import ASSISTANT, USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded
from draftmill.sources.thinking import without

NAME = "alpaca"

_COLUMN = "instruction"
_BESIDE = ("input", "output", "instances")
_NO_INPUT = ("<noinput>", "noinput", "no input")  # so says the first release where there is none


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like Alpaca, or None."""
    if column not in (None, _COLUMN) or not isinstance(row.get(_COLUMN), str):
        return None
    beside = next((name for name in _BESIDE if name in row), None)
    return f"column {_COLUMN!r} is a text, beside {beside!r}" if beside else None


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's instruction, with its input below it, and the output as its recorded answer. Raises RowFault."""
    if column not in (None, _COLUMN):
        raise RowFault(f"no column {column!r} in this format: it has {_COLUMN!r}")
    if not any(name in row for name in _BESIDE):
        raise RowFault(f"no column {', '.join(map(repr, _BESIDE))} beside {_COLUMN!r}")
    said = "\n\n".join(filter(None, (prompt.text(row, _COLUMN), _input(row))))
    return recorded(row, [*_history(row), {"role": USER, "content": said}, *prompt.answer(_beside(row, "output")[0])])


def _beside(row: Mapping[str, Any], name: str) -> tuple[object, str]:
    """What a row has of this name, or the first of its instances has, and where that stands."""
    found, instances = row.get(name), row.get("instances")
    if found is None and isinstance(instances, list) and instances and isinstance(instances[0], dict):
        return instances[0].get(name), f"{name!r} of the first of 'instances'"
    return found, f"column {name!r}"


def _input(row: Mapping[str, Any]) -> str:
    found, place = _beside(row, "input")
    if found is not None and not isinstance(found, str):
        raise RowFault(f"{place} is {json_text.kind(found)}, not a text")
    return found if found and found.strip() and found.strip().lower() not in _NO_INPUT else ""


def _history(row: Mapping[str, Any]) -> list[Message]:
    pairs = row.get("history")
    if pairs is None:
        return []
    if not isinstance(pairs, list):
        raise RowFault(f"column 'history' is {json_text.kind(pairs)}, not an array of pairs")
    messages: list[Message] = []
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise RowFault(f"item {number} of 'history' is no pair of texts")
        messages += [{"role": USER, "content": pair[0]}, {"role": ASSISTANT, "content": without(pair[1])}]
    return messages
