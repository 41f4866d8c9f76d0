"""The report of a preparation in a terminal: what became of every row, and what the prompts are like."""

from collections import Counter
from collections.abc import Mapping

from rich.table import Table

from draftmill.cli.console import advise, count, label, many, say, table
from draftmill.mill.prepared import NOT_SAMPLED, UNREAD, Prepared

_BARS = " ▁▂▃▄▅▆▇█"
_FIRST_BIN = 16  # tokens: shorter prompts stand together
_NAMED = 3  # long prompts that are named


def show(reports: Mapping[str, Prepared]) -> None:
    """Print the report of every dataset."""
    say()
    say(_rows(reports))
    say()
    say(_prompts(reports))
    say()
    for name, report in reports.items():
        _notes(name, report)


def _rows(reports: Mapping[str, Prepared]) -> Table:
    """Rows in = prompts + what was dropped, by reason."""
    reasons = Counter[str]()
    for report in reports.values():
        reasons.update(report.dropped)
    ordered = [UNREAD, *sorted(reasons.keys() - {UNREAD, NOT_SAMPLED}), NOT_SAMPLED]
    told = [reason for reason in ordered if reasons[reason]]
    columns = [("dataset", ""), ("format", ""), ("rows", "right"), ("= prompts", "right")]
    columns += [(f"+ {reason}", "right") for reason in told]
    lines = [
        (
            name,
            r.format,
            count(r.read) + (f" × {r.n}" if r.n > 1 else ""),
            count(r.positions),
            *(count(r.dropped.get(reason, 0)) for reason in told),
        )
        for name, r in reports.items()
    ]
    all_in = sum(r.read * r.n for r in reports.values())
    total = ("all", "", count(all_in), count(sum(r.positions for r in reports.values())))
    whole = (*total, *(count(reasons[reason]) for reason in told))
    return table(columns, lines, total=whole if len(reports) > 1 else (), spare=("format",))


def _prompts(reports: Mapping[str, Prepared]) -> Table:
    bins = _bins(reports)
    tokens = f"{bins[0]:,} … {bins[-1]:,} tokens" if bins else "tokens"
    columns = [("dataset", ""), (tokens, ""), ("mean", "right"), ("longest", "right"), ("turns", "right")]
    columns += [("tools", "right"), ("refused", "right"), ("repeated", "right")]
    lines = [
        (
            name,
            _bar(r, bins),
            count(r.prompt_tokens / max(1, r.positions - r.refused)),
            count(r.longest),
            count(r.turns),
            f"{r.with_tools / max(1, r.positions):.0%}" if r.with_tools else "–",
            count(r.refused),
            count(r.repeated),
        )
        for name, r in reports.items()
    ]
    return table(columns, lines, spare=(tokens, "repeated", "refused", "tools", "turns"))


def _bins(reports: Mapping[str, Prepared]) -> list[int]:
    """The powers of two from the shortest prompts to the longest."""
    found = [max(_FIRST_BIN, bound) for r in reports.values() for bound in r.lengths]
    if not found:
        return []
    return [1 << power for power in range(min(found).bit_length() - 1, max(found).bit_length())]


def _bar(report: Prepared, bins: list[int]) -> str:
    """A column for each length: the prompts that are at most so long, and longer than half of it."""
    counts = Counter[int]()
    for bound, prompts in report.lengths.items():
        counts[max(_FIRST_BIN, bound)] += prompts
    most = max(counts.values(), default=1)
    return "".join(_BARS[-(-(len(_BARS) - 1) * counts[bound] // most)] for bound in bins)


def _notes(name: str, report: Prepared) -> None:
    if report.context and report.over_context:
        text = f"{name}: {many(report.over_context, 'prompt')} of {report.context:,} tokens or more"
        label("context", f"{text} leave no room for an answer in the context", style="yellow")
        for length, where in [each for each in report.longest_prompts if each[0] >= report.context][:_NAMED]:
            label("", f"{length:,} tokens: {where}", style="dim")
        advise(f"`max_prompt_tokens` leaves such prompts out; otherwise they become errors of kind too_long ({name})")
    if report.repeated and report.duplicates == "keep":
        label("repeated", f"{name}: {many(report.repeated, 'row')} like an earlier one, each a prompt of its own")
        advise(f"`duplicates: exact` would drop them, `near` also those that differ in little, in a new run ({name})")
    for place in report.lost:
        label("lost", f"{name}: the rest of a file is missing, as the recipe accepts: {place}", style="yellow")
