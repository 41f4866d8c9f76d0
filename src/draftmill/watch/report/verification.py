"""``verification.json`` in a run's folder, as a report reads it: whatever of it is understood, and a word on the rest.

Expected is a list of checks, or an object that has one under ``checks``; a check has a ``name`` and may have a
``severity``, ``count``, ``share`` (0 to 1) and ``message``.
"""

from pathlib import Path
from typing import Any

import msgspec


class Check(msgspec.Struct, frozen=True):
    """One check; None or empty is what the file does not say."""

    name: str
    severity: str = ""
    count: int | None = None
    share: float | None = None
    message: str = ""


class Verification(msgspec.Struct, frozen=True):
    """Its checks, and how many entries of the list were not understood."""

    checks: list[Check]
    not_understood: int = 0


def read_verification(path: Path) -> tuple[Verification | None, tuple[str, str] | None]:
    """What the file says, and (what, why) where it cannot be read. None and None where it is not there."""
    try:
        held: Any = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return None, None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        return None, ("verification", f"{path.name} cannot be read: {error}")
    listed = held.get("checks") if isinstance(held, dict) else held
    if isinstance(listed, dict):  # by name
        listed = [{"name": name, **check} if isinstance(check, dict) else check for name, check in listed.items()]
    if not isinstance(listed, list):
        return None, ("verification", f"{path.name} holds no list of checks")
    checks = [check for entry in listed if (check := _check(entry))]
    return Verification(checks, len(listed) - len(checks)), None


def _check(entry: Any) -> Check | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    count, share = entry.get("count"), entry.get("share")
    return Check(
        name=entry["name"],
        severity=_text(entry.get("severity")),
        count=count if isinstance(count, int) and not isinstance(count, bool) else None,
        share=float(share) if isinstance(share, int | float) and not isinstance(share, bool) else None,
        message=_text(entry.get("message")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
