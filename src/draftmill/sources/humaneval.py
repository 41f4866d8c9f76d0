"""HumanEval: ``prompt`` is the head of a Python function, for a model that completes text.

A chat model gets it as a request. ``format: prompt`` sends the bare text instead.
"""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import prompt
from draftmill.sources.canonical import USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded

NAME = "humaneval"

_COLUMN = "prompt"
_MARK = "entry_point"
_REQUEST = "Complete this Python function."


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like HumanEval, or None."""
    if not isinstance(row.get(column or _COLUMN), str) or _MARK not in row:
        return None
    return f"column {column or _COLUMN!r} is the head of the function that {_MARK!r} names"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's function as a request to complete it. Raises RowFault."""
    if not isinstance(row.get(_MARK), str):
        raise RowFault(f"no text in column {_MARK!r}")
    code = prompt.text(row, column or _COLUMN).strip("\n")
    fence = "```"
    while fence in code:
        fence += "`"
    return recorded(row, [{"role": USER, "content": f"{_REQUEST}\n\n{fence}python\n{code}\n{fence}"}])
