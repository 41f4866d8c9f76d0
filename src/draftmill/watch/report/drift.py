"""``drift.json`` of each dataset, as a report reads it: tolerant, since the mill that writes it goes its own way."""

from collections.abc import Sequence

import msgspec

from draftmill.journal.folder import DatasetFolder


class Example(msgspec.Struct, frozen=True):
    """One answer that drifts; ``at`` is the index of its first id that differs, negative in the prompt."""

    where: str = ""
    reason: str = ""
    at: int | None = None
    generated: str = ""
    rendered: str = ""


class Drift(msgspec.Struct, frozen=True):
    """How many answers of a sample would come back as other ids once they are text (docs/run-folder.md)."""

    answers: int
    drifted: int
    reasons: dict[str, int] = {}
    before: int = 0
    median: int | None = None
    examples: list[Example] = []
    unjudged: dict[str, int] = {}


class _File(msgspec.Struct):
    figure: Drift


def read_drift(folders: Sequence[DatasetFolder]) -> tuple[dict[str, Drift], list[tuple[str, str]]]:
    """By dataset, and (what, why) of those files that cannot be read; a file that is not there is no fault."""
    found, faults = {}, []
    for folder in folders:
        try:
            found[folder.name] = msgspec.json.decode(folder.drift.read_bytes(), type=_File).figure
        except FileNotFoundError:
            continue
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            faults.append((f"drift of {folder.name}", f"{folder.drift.name} cannot be read: {error}"))
    return found, faults
