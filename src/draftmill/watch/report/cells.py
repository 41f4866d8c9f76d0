"""Tables as cells, and figures as the words in them. ``–`` is what nobody knows."""

from collections.abc import Callable

import msgspec

from draftmill.watch.figures import DatasetFigures
from draftmill.watch.report.charts import Drawn
from draftmill.watch.report.facts import doubtful
from draftmill.watch.words import count

UNKNOWN = "–"


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


def without_empty(table: Table) -> Table:
    """Without the columns that no row has."""
    lines = [*table.rows, *([table.total] if table.total else [])]
    kept = [i for i in range(len(table.columns)) if any(line[i].text not in ("", UNKNOWN) for line in lines)]
    return Table(
        [table.columns[i] for i in kept],
        [[row[i] for i in kept] for row in table.rows],
        [table.total[i] for i in kept] if table.total else [],
    )
