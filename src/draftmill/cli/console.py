"""How draftmill looks in a terminal: quiet, aligned, and the same in every verb."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from draftmill.errors import DraftmillError

err = Console(stderr=True, highlight=False, soft_wrap=True)
if not err.is_terminal:
    err.width = 200  # a log has no width: nothing in it may be cut to fit a screen
out = Console(highlight=False, soft_wrap=True)
if not out.is_terminal:
    out.width = int(asked) if (asked := os.environ.get("COLUMNS", "")).isdecimal() and int(asked) else 200

_LABEL_WIDTH = 10
_asked_for: ContextVar[bool] = ContextVar("asked_for", default=False)  # in other threads it is never so


@contextmanager
def result(*, json: bool = False) -> Iterator[None]:
    """What is said meanwhile is what the verb was asked for: it goes to stdout, or beside its JSON to stderr.

    All else that a verb says, progress, warnings and errors, goes to stderr.
    """
    before = _asked_for.set(not json)
    try:
        yield
    finally:
        _asked_for.reset(before)


def say(what: RenderableType = "", *, markup: bool = True, end: str = "\n") -> None:
    """Print something: on stdout within ``result``, else on stderr."""
    _here().print(what, markup=markup, end=end)


def width() -> int:
    """How wide that is which ``say`` prints to."""
    return _here().width


def _here() -> Console:
    return out if _asked_for.get() else err


def label(name: str, text: str, *, style: str = "") -> None:
    """One line of a story: what it is about, then what happened."""
    line = Text(f"  {name:<{_LABEL_WIDTH}} ", style="dim")
    line.append(text, style=style or "default")
    say(line)


def say_error(error: DraftmillError) -> None:
    """One clear message, its details, and what to do next."""
    err.print(Text.assemble(("error: ", "bold red"), error.message))
    for fault in error.faults:
        err.print(Text(f"  {fault}"))
    if error.advice:
        err.print(Text.assemble(("  → ", "cyan"), error.advice))


def advise(text: str) -> None:
    """What to do next."""
    say(Text.assemble(("  → ", "cyan"), text))


def command(*words: object) -> str:
    """A command that can be pasted into a shell, whatever is in its words; empty ones are left out."""
    return shlex.join(str(word) for word in words if word != "")


def table(
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[str]],
    *,
    total: Sequence[str] = (),
    spare: Sequence[str] = (),
) -> Table:
    """A table without lines: (heading, justification) a column; ``total`` stands last, apart.

    On a narrow terminal the ``spare`` columns are left out, in their order, until the rest fits whole.
    """
    lines = [list(row) for row in rows]
    kept = _fitting([heading for heading, _ in columns], [*lines, *([list(total)] if total else [])], spare)
    columns = [columns[i] for i in kept]
    rows, total = [[row[i] for i in kept] for row in lines], [total[i] for i in kept] if total else ()
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for heading, justify in columns:
        grid.add_column(heading, justify="right" if justify == "right" else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    if total:
        grid.add_row(*total, style="bold")
    return grid


def _fitting(headings: list[str], lines: list[list[str]], spare: Sequence[str]) -> list[int]:
    """Which columns fit the terminal's width together."""
    widths = [max(len(line[i]) for line in [headings, *lines]) + 2 for i in range(len(headings))]
    kept = list(range(len(headings)))
    for name in spare:
        if sum(widths[i] for i in kept) <= width():
            break
        kept.remove(headings.index(name))
    return kept


def many(number: int, noun: str) -> str:
    """``1 prompt``, ``2,000 prompts``."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")


def count(number: float) -> str:
    """A count for people: 1,234 up to a million, then 12.3M."""
    if number < 1_000_000:
        return f"{number:,.0f}"
    return f"{number / 1e6:,.2f}M" if number < 1e9 else f"{number / 1e9:,.2f}B"


def duration(seconds: float | None) -> str:
    """Seconds as 42s, 3m10s or 2h05m; a dash where nobody knows."""
    if seconds is None:
        return "–"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
