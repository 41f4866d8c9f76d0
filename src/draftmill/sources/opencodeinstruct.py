"""OpenCodeInstruct: ``input`` is the task, ``output`` a recorded solution, beside it how that was made and judged."""

from collections.abc import Mapping
from typing import Any

from draftmill.sources import prompt
from draftmill.sources.canonical import USER
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded, recorded

NAME = "opencodeinstruct"

_COLUMN = "input"
_MARKS = ("generation_algorithm", "llm_judgement", "unit_tests", "tests_execution_status", "average_test_score")


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks like OpenCodeInstruct, or None."""
    mark = _mark(row)
    if mark is None or not isinstance(row.get(column or _COLUMN), str):
        return None
    return f"column {column or _COLUMN!r} is a task, and {mark!r} says how it was made or tested"


def read(row: Mapping[str, Any], column: str | None = None) -> Recorded:
    """The row's task, and the output as its recorded answer. Raises RowFault."""
    if _mark(row) is None:
        raise RowFault(f"no column {', '.join(map(repr, _MARKS))}")
    asked = {"role": USER, "content": prompt.text(row, column or _COLUMN)}
    return recorded(row, [asked, *prompt.answer(row.get("output"))])


def _mark(row: Mapping[str, Any]) -> str | None:
    return next((name for name in _MARKS if name in row), None)
