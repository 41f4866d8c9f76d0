"""The end of a run in one table, its sum, and what to do next."""

from collections import Counter
from typing import Any

import msgspec
from rich.text import Text

from draftmill.cli import drift
from draftmill.cli.console import advise, command, count, duration, label, many, say, table
from draftmill.ledger.standing import Tally
from draftmill.mill.loop import Ending
from draftmill.mill.result import DatasetResult, Result
from draftmill.records import Finish

_STATES = ("counting", "surplus", "passed_through", "error", "owed", "not_needed")


def show(result: Result) -> None:
    """Print the table, the sum of the states, and what was found amiss."""
    columns = [("dataset", "")] + [
        (heading, "right")
        for heading in ("prompts", "rows", "errors", "owed", "tokens", "mean", "answers", "stopped", "cut by limit")
    ]
    tallies = [d.tally for d in result.datasets]
    finishes = sum((d.finishes for d in result.datasets), Counter[str]())
    total = _row("all", _sum(tallies), sum(d.rows for d in result.datasets), finishes)
    rows = [_row(d.name, d.tally, d.rows, d.finishes, d.budget if d.exhausted else None) for d in result.datasets]
    say()
    spare = ("mean", "answers", "stopped", "tokens", "cut by limit")
    say(table(columns, rows, total=total if len(rows) > 1 else (), spare=spare))
    say()
    label("states", _sum_line(_sum(tallies)))
    start = result.start
    if start.answers:
        rate = start.tokens / start.seconds if start.seconds else 0
        spent = f"{many(start.answers, 'answer')}, {count(start.tokens)} tokens in {duration(start.seconds)}"
        label("this start", f"{spent}: {count(rate)} tok/s")
    continued, redrawn = sum(d.continued for d in result.datasets), sum(d.redrawn for d in result.datasets)
    if continued:
        label("continued", f"{many(continued, 'interrupted answer')} went on, not drawn again")
    if redrawn:
        share = redrawn / max(1, sum(finishes.values()))
        were = "was" if redrawn == 1 else "were"
        what = f"{many(redrawn, 'answer')} ({share:.1%}) {were} drawn again"
        label("redrawn", f"{what}: long ones are interrupted more often than short", style="yellow")
    for d in result.datasets:
        if d.ended:
            reasons = ", ".join(f"{count(n)} {reason.replace('_', ' ')}" for reason, n in d.ended.most_common())
            label("ended", f"{d.name}: {many(d.ended.total(), 'conversation')} ended before their recording: {reasons}")
    _show_drift(result)
    if start.clamped:
        text = f"the context left {many(start.clamped, 'answer')} less than the lane's limit; each line has its limit"
        label("clamped", text, style="yellow")
    if start.suspects:
        label("suspects", f"set aside in suspects.jsonl: {start.suspects}", style="red")
    for line in result.damage:
        label("damaged", line, style="yellow")
    for complaint in result.complaints:
        label("amiss", complaint, style="red")


def _show_drift(result: Result) -> None:
    looked_at = [(d.name, d.drift) for d in result.datasets if d.drift and d.drift.answers]
    for name, figure in looked_at:
        if figure.drifted:
            label("drift", f"{name}: {drift.sentence(figure)}")
    if any(figure.drifted for _, figure in looked_at):
        advise("the rows hold the generated ids themselves; the same data kept as text would teach other ones")
    elif looked_at:
        answers = sum(figure.answers for _, figure in looked_at)
        label("drift", f"none of {many(answers, 'answer')} looked at would come back as other ids")


def as_json(result: Result) -> dict[str, Any]:
    """The same figures for a script."""
    return {
        "ending": result.start.ending.name.lower(),
        "error": result.start.error.message if result.start.error else None,
        "complaints": result.complaints,
        "damage": result.damage,
        "seconds": round(result.start.seconds, 3),
        "answers": result.start.answers,
        "tokens": result.start.tokens,
        "datasets": {d.name: _dataset_json(d) for d in result.datasets},
    }


def exit_code(result: Result, *, limited: bool = False) -> int:
    """0 where everything that was asked for is settled and nothing is amiss."""
    if result.start.ending is Ending.INTERRUPTED:
        return 130
    incomplete = result.owed > 0 and not limited
    return 1 if result.start.ending is not Ending.DONE or incomplete or result.complaints else 0


def next_steps(result: Result, again: str, run: str) -> None:
    """How to go on."""
    if result.owed:
        advise(f"{many(result.owed, 'prompt')} owed; go on with: {again}")
    elif any(d.tally.error for d in result.datasets):
        advise(f"the errors, each with its reason: {run}/*/errors.jsonl; --retry-errors tries them again")
    if any(d.rows for d in result.datasets):
        advise(f"the rows: {run}/*/tokenized_data.jsonl")
    if any(d.rows for d in result.datasets) and not any(d.altered for d in result.datasets):
        advise(f"for a trainer: {command('draftmill', 'export', run)}")


def _dataset_json(d: DatasetResult) -> dict[str, Any]:
    states = {state: getattr(d.tally, state) for state in _STATES}
    return {
        "positions": d.tally.positions,
        **states,
        "adds_up": d.tally.adds_up(),
        "rows": d.rows,
        "tokens": d.tally.counting_tokens,
        "finishes": dict(d.finishes),
        "ended": dict(d.ended),
        "continued": d.continued,
        "redrawn": d.redrawn,
        "exhausted": d.exhausted,
        "drift": msgspec.to_builtins(d.drift) if d.drift else None,
    }


def _row(name: str, tally: Tally, rows: int, finishes: Counter[str], missed: int | None = None) -> tuple[str, ...]:
    """``missed`` is a budget that its prompts are too few for."""
    answers = sum(finishes.values())
    cut = finishes[Finish.LENGTH.value]
    return (
        name,
        count(tally.positions),
        count(rows),
        count(tally.error),
        count(tally.owed),
        count(tally.counting_tokens) + (f" of {count(missed)}, exhausted" if missed else ""),
        count(tally.counting_tokens / rows) if rows else "–",
        count(answers),
        count(finishes[Finish.STOP.value]),
        f"{count(cut)} ({cut / answers:.0%})" if answers else "–",
    )


def _sum(tallies: list[Tally]) -> Tally:
    return Tally(*(sum(getattr(t, field) for t in tallies) for field in Tally.__struct_fields__))


def _sum_line(tally: Tally) -> str:
    terms = " + ".join(f"{count(getattr(tally, state))} {state.replace('_', ' ')}" for state in _STATES)
    return f"{count(tally.positions)} positions = {terms}"


def show_example(prompt: str, answer: str) -> None:
    """One row as text: the prompt dim, the supervised part marked."""
    say()
    say(Text("  one row, decoded; the supervised part stands between the marks", style="dim"))
    say(Text(prompt, style="dim"), end="")
    say(Text.assemble(("⟦", "bold green"), (answer, "green"), ("⟧", "bold green")))
    say()
