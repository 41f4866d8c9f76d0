"""Which of the findings about a model matter to the datasets at hand. Pure."""

from collections.abc import Mapping

from msgspec.structs import replace

from draftmill.mill.prepared import Prepared
from draftmill.recipe import History
from draftmill.render.dialect import Dialect
from draftmill.render.findings import Concern, Finding, tools_as_text


def about(report: Prepared, dialect: Dialect, history: History = "served") -> list[Finding]:
    """The findings that matter to a prepared dataset, each with what it means there."""
    found = [f for f in dialect.findings if f.concern is Concern.ALL or report.concerns.get(f.concern)]
    fixed = history == "recorded" or report.most_turns == 1
    found = [replace(f, meaning=(fixed and f.recorded) or f.meaning, recorded="") for f in found]
    if report.tools_as_text and not dialect.lacks_native_tools:
        rows, first = report.tools_as_text, report.tools_as_text_first
        found.append(tools_as_text(rows, report.positions, first, lifted=report.tools_lifted > 0))
    return found


def together(found: Mapping[str, list[Finding]]) -> dict[Finding, list[str]]:
    """Each finding once, with the datasets that it matters to."""
    datasets: dict[Finding, list[str]] = {}
    for name, findings in found.items():
        for finding in findings:
            datasets.setdefault(finding, []).append(name)
    return datasets
