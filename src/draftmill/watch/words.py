"""Figures in words, short and the same everywhere in this room."""


def many(number: int, noun: str) -> str:
    """``1 prompt``, ``2,000 prompts``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def count(number: float) -> str:
    """1,234 up to a million, then 12.34M."""
    return f"{number:,.0f}" if number < 1e6 else f"{number / 1e6:,.2f}M"


def gigabytes(number: int) -> str:
    """1.2 GB."""
    return f"{number / 1e9:,.1f} GB"


def duration(seconds: float) -> str:
    """90 s, 15 min, 2.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
