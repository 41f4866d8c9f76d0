"""``verification.json`` in a run's folder, as a report reads it: whatever of it is understood, and a word on the rest.

Expected is a list of checks, or an object that has one under ``checks``; a check has a ``name``, and what else is
known of it may be missing or of another type.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")


class Shown(msgspec.Struct, frozen=True):
    """One row that a check found: its place, a piece of its text, and a remark."""

    where: str = ""
    text: str = ""
    remark: str = ""


class Check(msgspec.Struct, frozen=True):
    """One check: ``count`` of those ``looked`` at, their ``share``, and whether that is ``above`` its threshold.

    None or empty is what the file does not say.
    """

    name: str
    severity: str = ""
    count: int | None = None
    share: float | None = None
    message: str = ""
    looked: int | None = None
    above: bool | None = None
    advice: str = ""
    examples: list[Shown] = []

    @property
    def fires(self) -> bool:
        """Whether a person should look; a file that names no thresholds is taken for one that wants none found."""
        return bool(self.count) if self.above is None else self.above


class Verification(msgspec.Struct, frozen=True):
    """Its checks, whether it ``passed``, why checks were ``not_made``, and how many entries were not understood."""

    checks: list[Check]
    passed: bool | None = None
    not_made: dict[str, str] = {}
    not_understood: int = 0


def read_verification(path: Path) -> tuple[Verification | None, tuple[str, str] | None]:
    """What the file says, and (what, why) where it cannot be read. None and None where it is not there."""
    try:
        held: Any = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        return None, None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        return None, ("verification", f"{path.name} cannot be read: {error}")
    whole = held if isinstance(held, dict) else {"checks": held}
    listed = whole.get("checks")
    if isinstance(listed, dict):  # by name
        listed = [{"name": name, **check} if isinstance(check, dict) else check for name, check in listed.items()]
    if not isinstance(listed, list):
        return None, ("verification", f"{path.name} holds no list of checks")
    checks = [check for entry in listed if (check := _check(entry))]
    not_made = _as(whole.get("not_made"), dict[str, str]) or {}
    return Verification(checks, _as(whole.get("passed"), bool), not_made, len(listed) - len(checks)), None


def without_examples(found: Verification) -> Verification:
    """The same without pieces of rows."""
    checks = [msgspec.structs.replace(check, examples=[]) for check in found.checks]
    return msgspec.structs.replace(found, checks=checks)


def _check(entry: Any) -> Check | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    shown = _as(entry.get("examples"), list[Any]) or []
    return Check(
        name=entry["name"],
        severity=_as(entry.get("severity"), str) or "",
        count=_as(entry.get("count"), int),
        share=_as(entry.get("share"), float),
        message=_as(entry.get("message"), str) or "",
        looked=_as(entry.get("looked"), int),
        above=_as(entry.get("above"), bool),
        advice=_as(entry.get("advice"), str) or "",
        examples=[example for one in shown if (example := _as(one, Shown))],
    )


def _as(value: Any, kind: type[_T]) -> _T | None:
    """The value where it is of this kind."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
