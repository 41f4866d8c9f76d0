"""The tables of a report that are not of datasets side by side: errors, engines, verification, drift."""

from collections.abc import Sequence

from draftmill.watch.figures import DatasetFigures, EngineFigures
from draftmill.watch.report.cells import UNKNOWN, Cell, Table, known, percent, without_empty
from draftmill.watch.report.drift import Drift
from draftmill.watch.report.verification import Verification
from draftmill.watch.words import count

_REASONS = 12
_ENGINE = ("engine", "state", "running", "queued", "in flight", "cap", "KV use", "KV tokens", "tok/s", "thrown back")
_RANKS = {"error": 0, "bad": 0, "warning": 1, "warn": 1}  # of severities; any other stands last
_STYLES = ("bad", "warn", "")


def errors(datasets: Sequence[DatasetFigures]) -> Table | None:
    """Error rows by dataset and reason, the commonest first, with one of each whole."""
    found = [(d.name, r) for d in datasets for r in d.error_reasons]
    if not found:
        return None
    found.sort(key=lambda pair: -pair[1].count)
    rows = [
        [Cell(count(r.count), "bad"), Cell(name, "name"), Cell(r.kind), Cell(r.sample, "text"), Cell(r.where, "text")]
        for name, r in found[:_REASONS]
    ]
    columns = [("how many", True), ("dataset", False), ("kind", False), ("one of them", False), ("where", False)]
    return Table(columns, rows)


def engines(each: Sequence[EngineFigures]) -> Table | None:
    """Each engine as it was last seen."""
    if not each:
        return None
    rows = [
        [
            Cell(e.name, "name"),
            Cell((e.state or UNKNOWN) + (f": {e.why}" if e.why else ""), "text"),
            *(known(n) for n in (e.running, e.queued, e.in_flight, e.cap)),
            known(e.kv_use, percent),
            *(known(n) for n in (e.kv_total, e.mean_rate or e.rate, e.retracted)),
        ]
        for e in each
    ]
    return without_empty(Table([(name, n > 1) for n, name in enumerate(_ENGINE)], rows))


def verification(found: Verification) -> tuple[Table | None, str]:
    """A row for each check, those that a person should look at first; and the names of those that found nothing."""
    ranked = sorted((not c.fires, _RANKS.get(c.severity.lower(), 2), n) for n, c in enumerate(found.checks))
    rows = []
    for quiet, rank, number in ranked:
        c = found.checks[number]
        if c.count == 0 and not c.fires:
            continue
        said = f"{c.message} → {c.advice}" if c.advice and c.fires else c.message
        cells = [Cell(c.name, "name"), Cell(c.severity or UNKNOWN, "" if quiet else _STYLES[rank])]
        rows.append([*cells, known(c.count), known(c.looked), known(c.share, percent), Cell(said, "text")])
    columns = ("check", "severity", "found", "of", "share", "what it says")
    nothing = ", ".join(c.name for c in found.checks if c.count == 0 and not c.fires)
    return without_empty(Table([(name, 1 < n < 5) for n, name in enumerate(columns)], rows)) if rows else None, nothing


def drift(found: dict[str, Drift]) -> Table:
    """How many answers would come back as other ids, and why."""
    rows = [
        [
            Cell(name, "name"),
            Cell(count(d.answers)),
            Cell(count(d.drifted)),
            known(d.drifted / d.answers if d.answers else None, percent),
            known(d.median),
            Cell(_listed(d.reasons) or UNKNOWN, "text"),
            Cell(_listed(d.unjudged) or "0", "text"),
        ]
        for name, d in found.items()
    ]
    columns = ["dataset", "answers", "other ids", "share", "median first id", "why", "not judged"]
    return Table([(name, 0 < n < 5) for n, name in enumerate(columns)], rows)


def _listed(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items())
