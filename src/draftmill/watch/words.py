"""Figures in words, short and the same everywhere in this room."""

from datetime import datetime


def many(number: int, noun: str) -> str:
    """``1 prompt``, ``2,000 prompts``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def count(number: float) -> str:
    """1,234 up to a million, then 12.34M."""
    return f"{number:,.0f}" if abs(number) < 999_999.5 else f"{number / 1e6:,.2f}M"


def gigabytes(number: int) -> str:
    """1.2 GB."""
    return f"{number / 1e9:,.1f} GB"


def duration(seconds: float) -> str:
    """42s, 3m10s, 2h05m, 3d02h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"


def clock(time: float) -> str:
    """The time of day here, 14:05:09."""
    return datetime.fromtimestamp(time).astimezone().strftime("%H:%M:%S")
