"""A run's figures as text: the same lines for a pipe, for ``--once`` and for the live monitor."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from draftmill.watch.figures import DatasetFigures, EngineFigures, Eta, Phase, Rates, RunFigures
from draftmill.watch.finding import Finding, Level
from draftmill.watch.words import clock, count, duration, many

_BAR = 20  # characters of a bar
_SPARKS = "▁▂▃▄▅▆▇█"
_SPARKLINE = 24
_EVENTS = 5
_STYLES = {Level.BAD: "bold red", Level.WARN: "yellow", Level.INFO: "cyan", Level.GOOD: "green"}
_PHASES = {
    Phase.RUNNING: "green",
    Phase.PAUSED: "yellow",
    Phase.PREPARING: "cyan",
    Phase.GONE: "bold red",
    Phase.ENDED: "bold",
}


def overview(run: RunFigures, findings: Sequence[Finding], width: int) -> RenderableType:
    """All of it, as wide as it may be."""
    parts: list[RenderableType] = [head(run), Text(), diagnosis(findings), Text(), datasets(run, width), Text()]
    parts.append(summary(run))
    seen = [e for e in run.engines if e.state]
    if seen:
        parts += [Text(), engines(seen, width)]
    if run.total.error_reasons:
        parts += [Text(), errors(run.total)]
    return Group(*parts)


def head(run: RunFigures) -> Text:
    """``runs/kimi  running for 2h05m, seen 2 s ago``."""
    phase = Phase.RUNNING if run.started and run.phase is Phase.PAUSED else run.phase  # the time is that of both
    line = Text.assemble((run.path, "bold"), "  ", (phase.value, _PHASES.get(phase, "")))
    if run.started and run.phase in (Phase.RUNNING, Phase.PAUSED):
        line.append(f" for {duration(run.time - run.started)}")
    if phase is not run.phase:
        line.append(", paused", style=_PHASES[Phase.PAUSED])
    if run.seen:
        line.append(f", last seen {duration(max(0.0, run.time - run.seen))} ago", style="dim")
    return line


def diagnosis(findings: Sequence[Finding], most: int = 4) -> Group:
    """The most pressing findings, each with what to do about it."""
    lines = []
    for finding in findings[:most]:
        about = "" if finding.subject == "run" else f"{finding.subject}: "
        message = finding.message
        lines.append(
            Text.assemble(("● ", _STYLES[finding.level]), (about if about not in message else "", "dim"), message)
        )
        if finding.advice and finding.level is not Level.GOOD:
            lines.append(Text.assemble(("  → ", "cyan"), finding.advice))
    if len(findings) > most:
        lines.append(Text(f"  and {many(len(findings) - most, 'finding')} more", style="dim"))
    return Group(*lines)


def datasets(run: RunFigures, width: int) -> Table:
    """A row each with its bar, and their sum."""
    columns = [
        "dataset",
        "",
        "done",
        "rows",
        "prompts",
        "errors",
        "owed",
        "tokens",
        "tok/s",
        "mean",
        "cut",
        "think",
        "left",
    ]
    rows = [_dataset(d) for d in run.datasets]
    total = _dataset(run.total) if len(run.datasets) > 1 else None
    spare = ("think", "prompts", "mean", "cut", "", "errors", "tok/s", "rows", "owed")
    return _table(columns, rows, total, width, spare)


def engines(each: Sequence[EngineFigures], width: int) -> Table:
    """A row each: what it does, what it may have, and its rate over the last minutes."""
    columns = ["engine", "state", "running", "queued", "KV", "tok/s", "in flight", "cap", "thrown back", "tok/s, 5 min"]
    rows = [_engine(e) for e in each]
    return _table(columns, rows, None, width, ("tok/s, 5 min", "thrown back", "cap", "state", "in flight"))


def errors(total: DatasetFigures, most: int = 3) -> Group:
    """The commonest reasons, one of each whole."""
    lines = [Text(f"errors  {count(total.errors)}", style="dim")]
    for reason in total.error_reasons[:most]:
        lines.append(Text.assemble((f"{count(reason.count):>7}  ", "red"), reason.sample, (f"  {reason.where}", "dim")))
    return Group(*lines)


def events(run: RunFigures, most: int = _EVENTS) -> Group:
    """What happened last."""
    lines = [
        Text.assemble(
            (f"{clock(event.time)}  ", "dim"),
            f"{event.kind}: {'' if event.subject == 'run' else event.subject + ': '}{event.message}",
        )
        for event in run.events[-most:]
    ]
    return Group(*lines)


def summary(run: RunFigures) -> Group:
    """Rates here and at the servers, lengths, and when it will be done."""
    total, lines = run.total, []
    on = run.phase not in (Phase.ENDED, Phase.GONE, Phase.FILES)
    here = _rates(total.rates)
    servers = f"; the servers say {count(run.server_rate)}" if run.server_rate is not None else ""
    if not servers and any(e.running for e in run.engines):
        servers = "; the servers say –"
    lines.append(_line("tok/s", (here or f"not known{' yet' if on else ''}") + servers))
    if total.lengths:
        n = total.lengths
        text = f"mean {count(n.mean)}, half up to {count(n.p50)}, 90 % up to {count(n.p90)}, longest {count(n.longest)}"
        lines.append(_line("lengths", text))
    if total.growing:
        text = f"{count(total.growing)} tokens of {many(total.growing_answers, 'unfinished answer')} are kept"
        lines.append(_line("growing", text))
    if total.eta:
        lines.append(_line("left", _eta(total.eta)))
    for unread in run.unread[:3]:
        lines.append(_line("unread", f"{unread.file}: {many(unread.lines, 'line')} not understood", "yellow"))
    return Group(*lines)


def sparkline(values: Sequence[float | None]) -> str:
    """The last values as a line of blocks, from 0 to the highest."""
    known = [v or 0.0 for v in values][-_SPARKLINE:]
    most = max(known, default=0.0)
    if not most:
        return ""
    return "".join(_SPARKS[min(7, int(8 * v / most))] for v in known)


def bar(share: float | None) -> Text:
    """A share as a bar."""
    if share is None:
        return Text("")
    full = round(share * _BAR)
    return Text.assemble(("━" * full, "green" if share >= 1 else "cyan"), ("╌" * (_BAR - full), "dim"))


def _dataset(d: DatasetFigures) -> list[str | Text]:
    done = d.done
    budget = f"{count(d.counted)}/{count(d.budget)}" if d.budget else count(d.counted)
    rate = d.rates.last_5min or d.rates.start
    return [
        d.name,
        bar(done),
        "–" if done is None else f"{done:.0%}",
        count(d.rows),
        "–" if d.prompts is None else count(d.prompts),
        Text(count(d.errors), style="red" if d.errors else ""),
        "–" if d.owed is None else count(d.owed),
        budget + (" exhausted" if d.exhausted else ""),
        "–" if rate is None else count(rate),
        count(d.lengths.mean) if d.lengths else "–",
        "–" if d.truncated is None else f"{d.truncated:.0%}",
        f"{d.thinking.share:.0%}" if d.thinking else "–",
        duration(d.eta.seconds) if d.eta else "–",
    ]


def _engine(e: EngineFigures) -> list[str | Text]:
    bad = e.state not in ("open", "")
    retracted = "–" if e.retracted is None else count(e.retracted)
    return [
        e.name,
        Text(e.state or "–", style="red" if bad else "green"),
        "–" if e.running is None else count(e.running),
        "–"
        if e.queued is None
        else Text(count(e.queued), style="yellow" if e.queued > 0.1 * (e.running or 0) + 3 else ""),
        "–" if e.kv_use is None else Text(f"{e.kv_use:.0%}", style="yellow" if e.kv_use >= 0.9 else ""),
        "–" if e.rate is None else count(e.rate),
        "–" if e.in_flight is None else count(e.in_flight),
        "–" if e.cap is None else count(e.cap),
        retracted,
        sparkline([rate for *_, rate in e.history]),
    ]


def _rates(rates: Rates) -> str:
    named = (("10 s", rates.last_10s), ("5 min", rates.last_5min), ("start", rates.start), ("run", rates.run))
    return ", ".join(f"{name} {count(value)}" for name, value in named if value is not None)


def _eta(eta: Eta) -> str:
    span = f"{duration(eta.low)} to {duration(eta.high)}"
    return f"{duration(eta.seconds)} ({span}), about {count(eta.remaining)} tokens"


def _line(name: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{name:<8}  ", "dim"), (text, style))


def _table(
    columns: list[str], rows: list[list[str | Text]], total: list[str | Text] | None, width: int, spare: Sequence[str]
) -> Table:
    """A table without lines. What no row has is left out, and where it is too wide the spare columns, in order."""
    lines = [*rows, *([total] if total else [])]
    kept = [i for i in range(len(columns)) if any(str(line[i]) not in ("", "–") for line in lines)]
    widths = [max([len(columns[i]), *(len(str(line[i])) for line in lines)]) + 2 for i in range(len(columns))]
    for name in spare:
        if sum(widths[i] for i in kept) <= width:
            break
        kept = [i for i in kept if columns[i] != name]
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for i in kept:
        grid.add_column(columns[i], justify="left" if i < 2 else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*(row[i] for i in kept))
    if total:
        grid.add_row(*(total[i] for i in kept), style="bold")
    return grid
