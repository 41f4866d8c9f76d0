"""A run told while it happens: a live table on a terminal, plain lines in a log. It goes to stderr."""

import time
from pathlib import Path

from rich.live import Live

from draftmill.cli.console import advise, count, err, label, many
from draftmill.cli.progress import PLAIN_EVERY, PlainLines, Progress
from draftmill.mill.loop import Loop
from draftmill.mill.observer import Observer
from draftmill.mill.prepared import NOT_SAMPLED, UNREAD, Prepared
from draftmill.mill.seat import Seat
from draftmill.render.findings import Finding

_LOUD = {
    "lost": "red",
    "stalled": "red",
    "paused": "red",
    "source": "yellow",
    "suspect": "red",
    "fault": "red",
    "absent": "yellow",
    "unheard": "yellow",
    "ends": "yellow",
    "restarted": "yellow",
    "back": "green",
    "control": "cyan",
}
_QUIET = {"start", "prepared", "milling", "ended"}  # told elsewhere, in other words


class Story(Observer):
    """Prints what a run does."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._plain: PlainLines | None = None
        self._shown = time.monotonic()
        self._advised: set[str] = set()

    def note(self, kind: str, subject: str, message: str) -> None:
        if kind not in _QUIET:
            about = "" if subject == "run" else f"{subject}: "
            label(kind, about + message.removeprefix(about), style=_LOUD.get(kind, ""))

    def preparing(self, dataset: str, read: int, written: int) -> None:
        if time.monotonic() - self._shown > (1.0 if err.is_terminal else PLAIN_EVERY):
            self._shown = time.monotonic()
            label("reading", f"{dataset}: {count(read)} rows read, {many(written, 'prompt')} written")

    def prepared(self, dataset: str, report: Prepared, fresh: bool) -> None:
        unread = f"{count(report.unread)} unread" if report.unread else "all read"
        source = f"{many(report.read, 'row')} as {report.format}, {unread}" if fresh else "prepared before"
        what = "tokenized rows, passed through" if report.passed_through else "prompts"
        longest = f"longest {count(report.longest)} tokens" + (f" ({Path(report.longest_where).name})" if fresh else "")
        label("prompts", f"{dataset}: {count(report.positions)} {what}, {longest}; {source}")
        if fresh:
            self._found(dataset, report)
            dropped = {why: rows for why, rows in report.dropped.items() if why not in (UNREAD, NOT_SAMPLED)}
            if dropped:
                label("dropped", f"{dataset}: " + ", ".join(f"{count(rows)} {why}" for why, rows in dropped.items()))

    def found(self, finding: Finding, datasets: list[str]) -> None:
        about = f"{', '.join(datasets)}: " if datasets else ""
        label("finding", about + finding.message, style="yellow" if finding.advice else "")
        label("", finding.meaning, style="dim")
        if finding.advice and finding.advice not in self._advised:
            self._advised.add(finding.advice)
            advise(finding.advice)

    def seated(self, seats: list[Seat], compared: int) -> None:
        for seat in seats:
            who = seat.identity
            facts = [who.kind if who.kind != seat.engine.name else "", who.version or "", Path(who.model or "").name]
            facts += [f"{who.slots} slots" if who.slots else "", f"context {count(who.context)}" if who.context else ""]
            label(
                "engine", f"{seat.engine.name}: " + ", ".join(fact for fact in [*facts, f"{seat.cap} at once"] if fact)
            )
        equal = f"the engine's own ids equal ours on {compared} texts"
        label("tokenizer", equal if compared else "no engine here can tokenize a text for us: not compared")

    def milling(self, loop: Loop) -> None:
        progress = Progress(loop)
        if err.is_terminal:
            self._live = Live(get_renderable=progress.table, console=err, refresh_per_second=4, transient=True)
            self._live.start()
        else:
            self._plain = PlainLines(progress)
            self._plain.start()

    def milled(self) -> None:
        if self._live:
            self._live.stop()
        if self._plain:
            self._plain.stop()

    def _found(self, dataset: str, report: Prepared) -> None:
        """What a fresh preparation found: why the format, and all that its user should know."""
        label("format", f"{dataset}: {report.format}: {report.why}")
        for reason, rows, first in report.unread_reasons:
            label("unread", f"{dataset}: {many(rows, 'row')}: {reason} (first: {first})", style="yellow")
        if report.tools_lifted:
            text = f"{dataset}: the tools of {many(report.tools_lifted, 'row')} stood in the system prompt as text"
            label("tools", f"{text}, and are rendered in the model's own form now")
        if report.refused:
            label("refused", f"{dataset}: the chat template refuses {many(report.refused, 'prompt')}", style="yellow")
        if report.special_text_rows:
            tokens = ", ".join(f"{token} in {count(n)}" for token, n in list(report.special_text.items())[:4])
            where = f"(first: {report.special_text_first})"
            text = f"{dataset}: {many(report.special_text_rows, 'prompt')} hold typed special tokens: {tokens} {where}"
            label("markers", text, style="yellow")
            advise("the serving stack reads these as tokens too; drop the rows if nobody would send them")
        if report.without_special:
            few = f"{count(report.without_special)} of {many(report.passed_through, 'row')}"
            text = f"{dataset}: {few} hold none of the model's special tokens: were they made with its tokenizer?"
            label("foreign", text, style="yellow")
