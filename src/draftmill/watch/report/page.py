"""The page: facts, charts and tables laid into one HTML file that needs nothing else, not even a script.

Whatever came from outside (prompts, answers, names, reasons) is escaped by the template, always; a policy in the page's
head also keeps it from running or fetching anything, should that ever fail.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from importlib import resources
from itertools import groupby
from pathlib import Path

import jinja2

from draftmill.watch.figures import DatasetFigures, Event, RunFigures
from draftmill.watch.report import charts, details, tables
from draftmill.watch.report.axes import TimeAxis
from draftmill.watch.report.charts import Chart, Line
from draftmill.watch.report.facts import Facts
from draftmill.watch.words import count, duration, many

_CHANGES = ("milling", "ended", "control", "drain", "suspect", "repaired")
_OF_ENGINES = ("absent", "joins", "leaves", "refused", "lost", "back", "stalled", "paused", "restarted")
_MARKS = 24  # on a chart at most
# Characters that no HTML may hold, and those that let text be read in another order than it has.
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_KINDS = {
    "reasoning": "thinking",
    "content": "content",
    "call": "tool call",
    "frame": "marker",
    "end": "end of turn",
    "after": "behind the end",
}


def page_of(facts: Facts) -> bytes:
    """The whole file, UTF-8."""
    files = resources.files(__package__)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_printable
    )
    environment.filters["repr"] = repr
    template = environment.from_string((files / "page.html").read_text("utf-8"))
    run = facts.figures
    axis = TimeAxis([p.time for p in facts.timeline]) if facts.timeline else None
    marked = events_to_mark(facts.events)
    finishes = tables.finishes(facts)
    text = template.render(
        style=(files / "style.css").read_text("utf-8"),
        facts=facts,
        run=run,
        name=Path(run.path).absolute().name or run.path,
        made=stamp(facts.made),
        head=_head(run),
        findings=_findings(facts),
        tiles=tables.headline(run),
        summary=tables.summary(facts) if run.datasets else None,
        states=tables.states(facts),
        budgets=tables.budgets(facts),
        charts=_courses(facts, axis, marked) if axis else [],
        each=_each(facts, axis) if axis else [],
        gaps=len(axis.breaks) if axis else 0,
        marked=[(n, stamp(e.time), e) for n, e in enumerate(marked, 1)],
        unmarked=_unmarked(facts.events, marked),
        distributions=[_distribution(facts, d) for d in run.datasets],
        lengths=tables.lengths(facts),
        finishes=finishes,
        errors=details.errors(run.datasets),
        engines=details.engines(run.engines),
        drift=details.drift(facts.drift) if facts.drift else None,
        verification=details.verification(facts.verification) if facts.verification else None,
        kinds=_KINDS,
        width=charts.WIDTH,
        many=many,
    )
    return text.encode()


def stamp(time: float | None) -> str:
    """2026-11-30 06:49:05 UTC, in this machine's zone."""
    return "" if time is None else datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def events_to_mark(events: Sequence[Event]) -> list[Event]:
    """Those that a reader looks for on a chart, the first ones where they are too many."""
    return [event for event in events if event.kind in (*_CHANGES, *_OF_ENGINES)][:_MARKS]


def _printable(value: object) -> object:
    """Text whose unseen characters are written out, ``\\u202e``."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", value) if type(value) is str else value


def _findings(facts: Facts) -> list[tuple[str, list[str], str]]:
    """(level, messages, advice), those that ask for the same together."""
    return [
        (level.value, [finding.message for finding in same], advice)
        for (level, advice), same in groupby(facts.findings, key=lambda finding: (finding.level, finding.advice))
    ]


def _head(run: RunFigures) -> list[tuple[str, str]]:
    said = [("last start", stamp(run.started)), ("last sign of life", stamp(run.seen)), ("ended", run.ending)]
    eta = run.total.eta
    if eta:
        said.append(("left", f"{duration(eta.seconds)} ({duration(eta.low)} to {duration(eta.high)})"))
    return [(name, text) for name, text in said if text]


def _courses(facts: Facts, axis: TimeAxis, marked: Sequence[Event]) -> list[Chart]:
    """The run over time."""
    points, marks = facts.timeline, [(n, axis.at(e.time)) for n, e in enumerate(marked, 1)]
    ours, servers = charts.rates(axis, points), charts.binned(axis, points, lambda p: p.rate)
    total = charts.binned(axis, points, lambda p: sum(p.tokens.values()) if p.tokens else None)
    lines = [Line("came here", "one", ours, fill=True), Line("servers say", "two", servers)]
    load = [
        Line("running", "one", charts.binned(axis, points, lambda p: p.running), fill=True),
        Line("queued", "two", charts.binned(axis, points, lambda p: p.queued)),
        Line("cap", "muted", charts.binned(axis, points, lambda p: p.cap or None)),
    ]
    use = [Line("", "one", charts.binned(axis, points, lambda p: p.kv_use), fill=True)]
    budget = facts.figures.total.budget
    rules = (
        [(float(budget), "budget")]
        if budget and all(d.budget_counts == "generated" for d in facts.figures.datasets)
        else []
    )
    drawn = [
        charts.over_time(axis, lines, title="Tokens a second", unit="tok/s", marks=marks),
        charts.over_time(
            axis, [Line("", "one", total, fill=True)], title="Tokens so far", unit="tokens", marks=marks, rules=rules
        ),
        charts.over_time(axis, load, title="Requests at the servers", unit="requests", marks=marks),
        charts.over_time(
            axis, use, title="KV cache in use", unit="%", marks=marks, top=1.0, rules=[(0.9, "90 %")], percent=True
        ),
    ]
    return [chart for chart in drawn if chart]


def _each(facts: Facts, axis: TimeAxis) -> list[Chart]:
    """Tokens of every dataset over time, with its budget."""
    if len(facts.figures.datasets) < 2:
        return []
    return [chart for d in facts.figures.datasets if (chart := _course(facts, axis, d))]


def _course(facts: Facts, axis: TimeAxis, d: DatasetFigures) -> Chart | None:
    runs = charts.binned(axis, facts.timeline, lambda p: p.tokens.get(d.name) if p.tokens else None)
    rules = [(float(d.budget), "")] if d.budget and d.budget_counts == "generated" else []
    note = f"dashed: the budget, {count(d.budget)}" if rules and d.budget else ""
    return charts.over_time(
        axis, [Line("", "one", runs, fill=True)], title=d.name, unit="tokens", rules=rules, small=True, note=note
    )


def _distribution(facts: Facts, d: DatasetFigures) -> tuple[str, Chart | None]:
    n = d.lengths
    if n is None:
        return d.name, None
    rules = [(n.p50, "median")]
    rules += [(float(limit), "limit") for limit in sorted(set(d.cut_at or ()))]
    note = (
        f"{many(n.count, 'answer')}; half up to {count(n.p50)}, 90 % up to {count(n.p90)}, longest {count(n.longest)}"
    )
    bins = facts.lengths.get(d.name, [])
    return d.name, charts.distribution(bins, title=d.name, unit="answers by tokens", rules=rules, note=note)


def _unmarked(events: Sequence[Event], marked: Sequence[Event]) -> str:
    """How many more there are, by kind."""
    left: dict[str, int] = {}
    for event in events:
        left[event.kind] = left.get(event.kind, 0) + 1
    for event in marked:
        left[event.kind] -= 1
    return ", ".join(f"{number:,} {kind}" for kind, number in left.items() if number)
