"""The report of a prepared dataset: what became of each of its rows, and what its prompts are like."""

from collections import Counter

import msgspec

from draftmill.journal.folder import DatasetFolder
from draftmill.records import UnreadRow

_REASONS = 5  # kinds of unread rows that the report shows

UNREAD, NOT_SAMPLED = "unread", "not sampled"


class Prepared(msgspec.Struct, frozen=True):
    """The report. Every row stands for ``n`` prompts: read · n = positions + the sum of what was dropped."""

    format: str
    why: str
    read: int
    unread: int
    unread_reasons: list[tuple[str, int, str]]  # reason, rows, first place
    available: int
    positions: int
    repeated: int
    refused: int
    special_text: dict[str, int]  # special token typed as text → rows
    special_text_rows: int
    special_text_first: str
    prompt_tokens: int
    longest: int
    longest_where: str
    with_tools: int
    turns: int = 0  # that the recordings ask for, over all positions
    most_turns: int = 1  # of one position
    passed_through: int = 0
    without_special: int = 0  # of those passed through, rows in which not one of the target's special tokens stands
    concerns: dict[str, int] = {}  # prompts that the findings of each concern matter to
    tools_lifted: int = 0  # rows whose tools were taken out of the system prompt
    tools_as_text: int = 0  # prompts that have theirs there
    tools_as_text_first: str = ""
    n: int = 1
    dropped: dict[str, int] = {}  # why → prompts; a row is n of them
    exhausted: bool = False  # every row was looked at: more samples would give no more prompts
    lengths: dict[int, int] = {}  # power of two → prompts of at most so many tokens, and more than half of it
    longest_prompts: list[tuple[int, str]] = []  # tokens, place
    context: int | None = None  # of the engine or model, where it is known
    over_context: int = 0  # prompts that leave no room for an answer in it
    duplicates: str = "keep"
    before: list[str] = []  # datasets that stood before it in the recipe
    against: list[str] = []  # datasets whose rows it was compared with
    source: dict[str, str] = {}  # file → size and time, or a revision
    lost: list[str] = []  # where a file broke off, accepted by the recipe

    def adds_up(self) -> bool:
        """Whether every row is accounted for."""
        return self.read * self.n == self.positions + sum(self.dropped.values())


def read_prepared(folder: DatasetFolder) -> Prepared | None:
    """The report of an earlier preparation, or None where there is none (or only half of one)."""
    try:
        prepared = msgspec.json.decode(folder.prepared.read_bytes(), type=Prepared)
    except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
        return None
    return prepared if folder.prompts.exists() else None


def covers(prepared: Prepared, samples: int | None) -> bool:
    """Whether an earlier preparation already holds all the prompts that are wanted now."""
    wanted = prepared.available if samples is None else min(samples, prepared.available)
    return prepared.exhausted or prepared.positions >= wanted


def reasons(unread: list[UnreadRow]) -> list[tuple[str, int, str]]:
    """The commonest reasons, each with its number of rows and the first place."""
    counts = Counter(row.reason for row in unread)
    first = {row.reason: str(row.where) for row in reversed(unread)}
    return [(reason, count, first[reason]) for reason, count in counts.most_common(_REASONS)]
