"""The tables of a report: facts as cells. ``–`` is what nobody knows."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from draftmill.watch.figures import DatasetFigures, EngineFigures, Lengths, RunFigures
from draftmill.watch.report.charts import Drawn, shares
from draftmill.watch.report.drift import Drift
from draftmill.watch.report.facts import Facts, doubtful
from draftmill.watch.report.verification import Verification
from draftmill.watch.words import count, duration

UNKNOWN = "–"
_REASONS = 12
_STATES = ("counting", "surplus", "passed_through", "errors", "owed", "not_needed")
_FINISHES = {
    "stop": ("stopped by itself", "good"),
    "length": ("cut by the limit", "warn"),
    "abort": ("ended by us", "other"),
}


class Cell(msgspec.Struct, frozen=True):
    """A cell's text, a style, and a bar of a dozen pixels that stands over the text."""

    text: str
    style: str = ""
    bar: list[Drawn] = []


class Table(msgspec.Struct, frozen=True):
    """``columns`` are (heading, whether numbers); ``total`` stands last, apart."""

    columns: list[tuple[str, bool]]
    rows: list[list[Cell]]
    total: list[Cell] = []


Column = tuple[str, bool, Callable[[DatasetFigures], Cell]]


def known(value: float | None, form: Callable[[float], str] = count) -> Cell:
    """A figure, or that nobody knows it."""
    return Cell(UNKNOWN, "unknown") if value is None else Cell(form(value))


def percent(value: float) -> str:
    """2.5 %; never 0 % or 100 % of what is only near."""
    if 0 < value < 0.001:
        text = "< 0.1 %"
    elif 0.999 < value < 1:
        text = "> 99.9 %"
    else:
        text = f"{value:.1%}".replace(".0%", "%").replace("%", " %")
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def of_journal(dataset: DatasetFigures, value: float | None) -> Cell:
    """A sum over a journal: a lower bound where lines were not understood, and no zero that may not be true."""
    if value is None or not doubtful(dataset):
        return known(value)
    return Cell(f"≥\N{NO-BREAK SPACE}{count(value)}" if value else "not known", "unknown")


def summary(facts: Facts) -> Table:
    """A row for each dataset, and all of them."""
    columns: list[Column] = [
        ("dataset", False, lambda d: Cell(d.name, "name")),
        ("done", True, _done),
        ("rows", True, lambda d: of_journal(d, d.rows)),
        ("prompts", True, lambda d: known(d.prompts)),
        ("errors", True, _errors),
        ("owed", True, lambda d: known(d.owed)),
        ("tokens generated", True, lambda d: of_journal(d, d.generated)),
        ("prompt tokens", True, lambda d: known(d.prompt_tokens if d.prompt_lengths else None)),
        ("mean answer", True, lambda d: known(d.lengths.mean if d.lengths else None)),
        ("cut by limit", True, lambda d: known(d.truncated, percent)),
        ("thinking", True, lambda d: known(d.thinking.share if d.thinking else None, percent)),
        ("tok/s", True, lambda d: known(_rate(d))),
        ("left", True, lambda d: known(d.eta.seconds if d.eta else None, duration)),
    ]
    return _of_datasets(facts, columns)


def headline(run: RunFigures) -> list[tuple[str, Cell]]:
    """The few figures that stand above all others."""
    total = run.total
    if not run.datasets:
        return []
    return [
        ("rows", of_journal(total, total.rows)),
        ("tokens generated", of_journal(total, total.generated)),
        ("tokens a second", known(_rate(total))),
        ("owed", known(total.owed)),
        ("errors", _errors(total)),
        ("cut by the limit", known(total.truncated, percent)),
    ]


def states(facts: Facts) -> Table | None:
    """Where every position is; None where no dataset's prompts are known."""
    if all(d.counting is None for d in facts.figures.datasets):
        return None

    def cell(state: str) -> Callable[[DatasetFigures], Cell]:
        return lambda d: known(getattr(d, state) if d.counting is not None else None)

    columns: list[Column] = [("dataset", False, lambda d: Cell(d.name, "name"))]
    columns += [(state.replace("_", " "), True, cell(state)) for state in _STATES]
    columns.append(("positions", True, lambda d: known(d.prompts)))
    return _of_datasets(facts, columns, keep=True)


def budgets(facts: Facts) -> Table | None:
    """Tokens inside the cut against the budget, and what lies behind it; None where there is no budget."""
    of = [d for d in facts.figures.datasets if d.budget]
    if not of:
        return None
    headings = [("dataset", False), ("reached", True), ("inside the cut", True), ("budget", True), ("behind it", True)]
    rows = []
    for d in of:
        reached = d.counted / (d.budget or 1)
        beyond = d.generated - d.counted if d.budget_counts == "generated" else None
        whole = max(1.0, reached + max(0, beyond or 0) / (d.budget or 1))
        bar = shares(
            [
                (reached / whole, "one"),
                (max(0, beyond or 0) / (d.budget or 1) / whole, "faint"),
                _rest(whole, reached, beyond, d.budget or 1),
            ]
        )
        word = " exhausted: no more prompts" if d.exhausted else ""
        counts = " (prompts count too)" if d.budget_counts == "all" else ""
        rows.append(
            [
                Cell(d.name, "name"),
                Cell(percent(reached) + word, "wide warn" if d.exhausted else "wide", bar),
                of_journal(d, d.counted),
                Cell(count(d.budget or 0) + counts),
                known(beyond),
            ]
        )
    return Table(headings, rows)


def _rest(whole: float, reached: float, beyond: float | None, budget: int) -> tuple[float, str]:
    return max(0.0, 1 - reached / whole - max(0, beyond or 0) / budget / whole), "track"


def finishes(facts: Facts) -> tuple[Table, list[tuple[str, str]]] | None:
    """How answers ended, and the legend (name, style); None where there is no answer."""
    names = sorted({n for d in facts.figures.datasets for n in d.finishes}, key=lambda n: ([*_FINISHES, n].index(n), n))
    if not names:
        return None
    each = [*facts.figures.datasets, *([facts.figures.total] if len(facts.figures.datasets) > 1 else [])]
    styles = {name: _FINISHES.get(name, (name, "other")) for name in names}

    def row(d: DatasetFigures) -> list[Cell]:
        whole = sum(d.finishes.values())
        bar = shares([(d.finishes.get(n, 0) / whole, styles[n][1]) for n in names]) if whole else []
        cells = [
            Cell(f"{count(k)} ({percent(k / whole)})" if k else "0" if whole else UNKNOWN, "wide")
            for k in (d.finishes.get(n, 0) for n in names)
        ]
        return [Cell(d.name, "name"), Cell(count(whole) if whole else "no answer yet", "wide", bar), *cells]

    rows = [row(d) for d in each]
    columns = [("dataset", False), ("answers", True), *((styles[n][0], True) for n in names)]
    total = rows.pop() if len(each) > len(facts.figures.datasets) else []
    return Table(columns, rows, total), [styles[n] for n in names]


def lengths(facts: Facts) -> Table | None:
    """Percentiles of answers and prompts."""
    rows = []
    for d in [*facts.figures.datasets, *([facts.figures.total] if len(facts.figures.datasets) > 1 else [])]:
        for what, measured in (("answers", d.lengths), ("prompts", d.prompt_lengths)):
            if measured:
                rows.append([Cell(d.name, "name"), Cell(what), *_percentiles(measured)])
    headings = ["mean", "10 % up to", "half up to", "90 % up to", "99 % up to", "longest"]
    return (
        Table([("dataset", False), ("of", False), ("number", True), *((h, True) for h in headings)], rows)
        if rows
        else None
    )


def errors(facts: Facts) -> Table | None:
    """Error rows by dataset and reason, the commonest first, with one of each whole."""
    found = [(d.name, r) for d in facts.figures.datasets for r in d.error_reasons]
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
    columns = [
        "engine",
        "state",
        "running",
        "queued",
        "in flight",
        "cap",
        "KV use",
        "KV tokens",
        "tok/s",
        "thrown back",
    ]
    rows = [
        [
            Cell(e.name, "name"),
            Cell(e.state + (f": {e.why}" if e.why else ""), "text"),
            *(known(n) for n in (e.running, e.queued, e.in_flight, e.cap)),
            known(e.kv_use, percent),
            *(known(n) for n in (e.kv_total, e.mean_rate or e.rate, e.retracted)),
        ]
        for e in each
    ]
    return _without_empty(Table([(name, n > 1) for n, name in enumerate(columns)], rows))


def verification(found: Verification) -> Table:
    """A row for each check; those that fire first."""
    order = {"error": 0, "bad": 0, "warning": 1, "warn": 1}
    styles = {0: "bad", 1: "warn"}
    ranked = sorted(found.checks, key=lambda c: (not c.count, order.get(c.severity.lower(), 2)))
    rows = [
        [
            Cell(c.name, "name"),
            Cell(c.severity or UNKNOWN, styles.get(order.get(c.severity.lower(), 2), "") if c.count else ""),
            known(c.count),
            known(c.share, percent),
            Cell(c.message, "text"),
        ]
        for c in ranked
    ]
    columns = [("check", False), ("severity", False), ("rows", True), ("share", True), ("what it says", False)]
    return Table(columns, rows)


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


def _percentiles(n: Lengths) -> list[Cell]:
    return [Cell(count(v)) for v in (n.count, n.mean, n.p10, n.p50, n.p90, n.p99, n.longest)]


def _done(d: DatasetFigures) -> Cell:
    done = d.done
    if done is None:
        return Cell(UNKNOWN, "unknown")
    return Cell(percent(done), "wide", shares([(done, "good" if done >= 1 else "one"), (1 - done, "track")]))


def _errors(d: DatasetFigures) -> Cell:
    """Without prompts and without an error row nobody knows whether errors were ever written down."""
    if not d.errors and d.prompts is None:
        return known(None)
    return Cell(count(d.errors), "bad" if d.errors else "")


def _rate(d: DatasetFigures) -> float | None:
    return d.rates.run if d.rates.run is not None else d.rates.start


def _of_datasets(facts: Facts, columns: Iterable[Column], *, keep: bool = False) -> Table:
    listed, run = list(columns), facts.figures
    total = [cell(run.total) for _, _, cell in listed] if len(run.datasets) > 1 else []
    rows = [[cell(d) for _, _, cell in listed] for d in run.datasets]
    table = Table([(heading, numbers) for heading, numbers, _ in listed], rows, total)
    return table if keep else _without_empty(table)


def _without_empty(table: Table) -> Table:
    """Without the columns that no row has."""
    lines = [*table.rows, *([table.total] if table.total else [])]
    kept = [i for i in range(len(table.columns)) if any(line[i].text not in ("", UNKNOWN) for line in lines)]
    return Table(
        [table.columns[i] for i in kept],
        [[row[i] for i in kept] for row in table.rows],
        [table.total[i] for i in kept] if table.total else [],
    )
