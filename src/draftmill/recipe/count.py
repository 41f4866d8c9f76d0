"""Counts as people write them: ``10M``, ``250k``, ``10_000_000``."""

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator

_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}
_COUNT = re.compile(r"([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?)\s*([kmbg]?)", re.IGNORECASE)
_MOST = 10**15  # more tokens than anybody has, and safe in 64 bits


def parse_count(value: object) -> int:
    """``10M``, ``250k``, ``1.5M``, ``10_000_000`` or a whole number, as a number of tokens or samples (at least 1)."""
    match = _COUNT.fullmatch(str(value).strip()) if isinstance(value, int | str) and value is not True else None
    count = Decimal(match[1].replace("_", "")) * _SUFFIXES[match[2].lower()] if match else Decimal(0)
    if not 1 <= count <= _MOST or count != int(count):
        raise ValueError("is not a count; write for example 10M, 250k or 10_000_000")
    return int(count)


Count = Annotated[int, BeforeValidator(parse_count)]
