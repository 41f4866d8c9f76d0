"""The tables of a report that have a row for each dataset."""

from collections.abc import Callable, Iterable

from draftmill.watch.figures import DatasetFigures, Lengths, RunFigures
from draftmill.watch.report.cells import UNKNOWN, Cell, Table, known, of_journal, percent, without_empty
from draftmill.watch.report.charts import shares
from draftmill.watch.report.facts import Facts
from draftmill.watch.words import count, duration

_STATES = ("counting", "surplus", "passed_through", "errors", "owed", "not_needed")
_LENGTHS = ("number", "mean", "10 % up to", "half up to", "90 % up to", "99 % up to", "longest")
_FINISHES = {
    "stop": ("stopped by itself", "good"),
    "length": ("cut by the limit", "warn"),
    "abort": ("ended by us", "other"),
}


Column = tuple[str, bool, Callable[[DatasetFigures], Cell]]


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
    columns = [("dataset", False), ("reached", True), ("inside the cut", True), ("budget", True), ("behind it", True)]
    return Table(columns, [_budget(d, d.budget or 1) for d in of])


def _budget(d: DatasetFigures, budget: int) -> list[Cell]:
    inside = d.counted / budget
    behind = None if d.budget_counts == "all" or d.passed_through else max(0, d.generated - d.counted)
    more = (behind or 0) / budget
    whole = max(1.0, inside + more)
    bar = shares([(inside / whole, "one"), (more / whole, "faint"), (max(0.0, 1 - inside - more) / whole, "track")])
    return [
        Cell(d.name, "name"),
        Cell(percent(inside) + (" exhausted" if d.exhausted else ""), "wide warn" if d.exhausted else "wide", bar),
        of_journal(d, d.counted),
        Cell(count(budget) + (" (prompts count too)" if d.budget_counts == "all" else "")),
        known(behind),
    ]


def finishes(facts: Facts) -> tuple[Table, list[tuple[str, str]]] | None:
    """How answers ended, and the legend (name, style); None where there is no answer."""
    names = sorted({n for d in facts.figures.datasets for n in d.finishes}, key=lambda n: ([*_FINISHES, n].index(n), n))
    if not names:
        return None
    styles = {name: _FINISHES.get(name, (name, "other")) for name in names}

    def row(d: DatasetFigures) -> list[Cell]:
        whole = sum(d.finishes.values())
        bar = shares([(d.finishes.get(n, 0) / whole, styles[n][1]) for n in names]) if whole else []
        cells = [
            Cell(f"{count(k)} ({percent(k / whole)})" if k else "0" if whole else UNKNOWN, "wide")
            for k in (d.finishes.get(n, 0) for n in names)
        ]
        return [Cell(d.name, "name"), Cell(count(whole) if whole else "no answer yet", "wide", bar), *cells]

    rows = [row(d) for d in _with_total(facts.figures)]
    columns = [("dataset", False), ("answers", True), *((styles[n][0], True) for n in names)]
    total = rows.pop() if len(rows) > 1 else []
    return Table(columns, rows, total), [styles[n] for n in names]


def lengths(facts: Facts) -> Table | None:
    """Percentiles of answers and prompts."""
    rows = []
    for d in _with_total(facts.figures):
        for what, measured in (("answers", d.lengths), ("prompts", d.prompt_lengths)):
            if measured:
                rows.append([Cell(d.name, "name"), Cell(what), *_percentiles(measured)])
    columns = [("dataset", False), ("of", False), *((heading, True) for heading in _LENGTHS)]
    return Table(columns, rows) if rows else None


def _with_total(run: RunFigures) -> list[DatasetFigures]:
    """All datasets, and their sum where they are more than one."""
    return [*run.datasets, run.total] if len(run.datasets) > 1 else list(run.datasets)


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
    rows = [[cell(d) for _, _, cell in listed] for d in _with_total(run)]
    total = rows.pop() if len(rows) > 1 else []
    table = Table([(heading, numbers) for heading, numbers, _ in listed], rows, total)
    return table if keep else without_empty(table)
