"""``draftmill diff``: what differs between two runs, from their files alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftmill.cli.options import Json, Only

if TYPE_CHECKING:
    from draftmill.compare.diff import Change, DatasetDiff, Diff
    from draftmill.compare.opened import OpenedRun
    from draftmill.ledger.standing import Limits

_WIDEST = 40  # characters of a value on the page
_SHOWN = 12  # settings on the page


def diff(
    run1: Annotated[Path, typer.Argument(help="A run's folder.")],
    run2: Annotated[Path, typer.Argument(help="Another run's folder.")],
    only: Only = None,
    json: Json = False,
) -> None:
    """Say what differs between two runs: recipe, digests, prompts, answers, lengths, shares, budgets.

    Conversations are paired by their ids, so that another order or another
    number of samples does not matter. Files are read only; both runs may be on.

    Ends with 0 where nothing differs that can change the rows, with 1 where
    something does, with 2 where that cannot be told.

    Example: draftmill diff runs/kimi runs/kimi-fp8

    Example: draftmill diff runs/monday runs/tuesday --only chat --json
    """
    import msgspec

    from draftmill.cli.console import result, say_error
    from draftmill.errors import DraftmillError

    try:
        found, unread, cut = _compared(run1, run2, tuple(only or ()))
    except DraftmillError as error:  # 1 would say that they differ
        say_error(error)
        raise typer.Exit(2) from None
    if json:
        typer.echo(msgspec.json.encode(msgspec.to_builtins(found) | {"unread": unread, "cut_at": cut}).decode())
    with result(json=json):
        show(found, unread, cut)
    raise typer.Exit(1 if found.differs else 0)


_Cut = dict[str, "tuple[Limits | None, Limits | None]"]


def _compared(run1: Path, run2: Path, only: tuple[str, ...]) -> "tuple[Diff, list[str], _Cut]":
    """What differs, the lines of either run that cannot be read, and by dataset at which limits answers were cut."""
    from draftmill.compare.diff import diff as compare
    from draftmill.compare.opened import open_run
    from draftmill.errors import RunError, UsageFault

    for run in (run1, run2):
        if not run.exists():
            raise UsageFault(f"{run}: no such folder", "give two folders that `draftmill run` made")
    one, other = open_run(run1, only), open_run(run2, only)
    for name in only:
        if name not in one.datasets and name not in other.datasets:
            raise UsageFault(f"neither run has prompts of a dataset {name!r}")
    if not one.datasets and not other.datasets:
        raise RunError(f"{run1} and {run2}: neither has prompts yet", "make some with `draftmill prepare`")
    found = compare(one, other)
    cut = {name: (one.datasets[name].standing.cut_at, other.datasets[name].standing.cut_at) for name in found.datasets}
    return found, [*_unread(one), *_unread(other)], cut


def _unread(run: "OpenedRun") -> list[str]:
    from draftmill.ledger.standing import unreadable

    return [line for d in run.datasets.values() for line in unreadable(d.files, d.standing)]


def show(found: "Diff", unread: list[str], cut: _Cut) -> None:
    """Print what differs, what it means, and what to do next."""
    from draftmill.cli.console import advise, label, say

    label("run 1", found.runs[0])
    label("run 2", found.runs[1])
    _show_changes("settings", found.settings)
    _show_changes("engines", found.engines)
    _show_changes("digests", [_short(change) for change in found.digests])
    for run, names in zip(("run 1", "run 2"), found.only, strict=True):
        if names:
            label("datasets", f"only {run} has {', '.join(names)}", style="yellow")
    for line in unread:
        label("unread", line, style="yellow")
    say()
    if found.datasets:
        _show_pairs(found.datasets)
        _show_lengths(found.datasets, cut)
    for name, dataset in found.datasets.items():
        _show_examples(name, dataset)
        _show_states(name, dataset)
    if not found.differs:
        label("same", "nothing differs that can change the rows", style="green")
    elif changed := [c for c in (*found.settings, *found.digests) if c.matters]:
        label("differs", f"the runs were made otherwise: {', '.join(c.key for c in changed[:4])}", style="yellow")
        if any(c.key in ("tokenizer_sha256", "template_sha256") for c in changed):
            advise("prompts of another tokenizer or template are other prompts: do not put both runs' rows together")
    else:
        _show_verdict(found)


def _show_verdict(found: "Diff") -> None:
    """What differs although the settings are the same."""
    from draftmill.cli.console import advise, label

    pairs = [d.pairs for d in found.datasets.values()]
    if any(p.other_prompt for p in pairs):
        label("differs", "the same conversations were rendered to other ids by the same template", style="red")
        advise("draftmill verify says of each run whether its prompts are what its template renders")
    elif any(p.only_one or p.only_other for p in pairs):
        label("differs", "the runs hold other conversations: their sources differ", style="yellow")
    elif any(p.other_answer for p in pairs):
        label("differs", "the same prompts have other answers, as two runs of a sampling server do", style="yellow")
        advise("whether the servers differ by more than chance: draftmill compare URL1 URL2")
    else:
        label("differs", "one run is further than the other, or its engines say that they are others", style="yellow")


def _show_changes(name: str, changes: "list[Change]") -> None:
    from draftmill.cli.console import label

    if not changes:
        label(name, "the same")
        return
    matter = sum(change.matters for change in changes)
    rest = len(changes) - matter
    differ = f"{matter} differ{'s' if matter == 1 else ''}" if matter else "the same"
    harmless = f"{rest} that cannot change the rows"
    label(name, differ + (f"{', and' if matter else ' but for'} {harmless}" if rest else ""))
    shown = changes[:_SHOWN]
    width = max(len(change.key) for change in shown)
    for change in shown:
        text = f"{change.key:<{width}}  {_both(change)}"
        label("", text, style="yellow" if change.matters else "dim")
    if len(changes) > len(shown):
        label("", f"and {len(changes) - len(shown)} more; --json has them all", style="dim")


def _short(change: "Change") -> "Change":
    """A digest by its first characters, as people compare them."""
    import msgspec

    def cut(value: Any) -> Any:
        return value[:12] if isinstance(value, str) else value

    return msgspec.structs.replace(change, one=cut(change.one), other=cut(change.other))


def _both(change: "Change") -> str:
    for run, whole in ((1, change.one), (2, change.other)):
        if isinstance(whole, dict):  # a dataset, a lane or an engine of one of them
            return f"only run {run} has it"
    return f"{_value(change.one)} → {_value(change.other)}"


def _value(value: Any) -> str:
    text = "–" if value is None else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _show_pairs(datasets: "dict[str, DatasetDiff]") -> None:
    from draftmill.cli.console import count, say, table

    columns = [("dataset", "")] + [
        (heading, "right")
        for heading in (
            "in both",
            "only in 1",
            "only in 2",
            "other prompt",
            "answers",
            "other answer",
            "from id (median)",
        )
    ]
    lines = []
    for name, d in datasets.items():
        p = d.pairs
        share = f"{count(p.other_answer)} ({p.other_answer / p.compared:.0%})" if p.compared else "–"
        first = f"{p.divergence[1]:,.0f}" if p.divergence else "–"
        numbers = (p.both, p.only_one, p.only_other, p.other_prompt, p.compared)
        lines.append((name, *map(count, numbers), share, first))
    say(table(columns, lines, spare=("from id (median)",)))
    say()


def _show_lengths(datasets: "dict[str, DatasetDiff]", cut: _Cut) -> None:
    import msgspec

    from draftmill.cli.console import count, say, table

    columns = [("dataset", ""), ("run", "")] + [
        (heading, "right")
        for heading in ("answers", "mean", "p10", "p50", "p90", "longest", "truncated", "at limit", "errors")
    ]
    lines = []
    for name, d in datasets.items():
        for i, lengths in enumerate(d.lengths):
            errors = sum(shares[i] for kind, shares in d.shares.items() if kind.startswith("error "))
            truncated = d.shares.get("truncated", (0.0, 0.0))[i]
            figures = [count(value) for value in msgspec.structs.astuple(lengths)] if lengths else ["–"] * 6
            lines.append(
                (
                    name if i == 0 else "",
                    str(i + 1),
                    *figures,
                    f"{truncated:.1%}",
                    _limits(cut[name][i]),
                    f"{errors:.1%}",
                )
            )
    say(table(columns, lines, spare=("p10", "longest")))
    say()


def _limits(cut_at: "Limits | None") -> str:
    """Those that cut answers, which need not be the recipe's of today."""
    from draftmill.cli.console import count

    return "–" if cut_at is None else "–".join(dict.fromkeys(map(count, cut_at)))


def _show_examples(name: str, d: "DatasetDiff") -> None:
    from draftmill.cli.console import count, label

    if d.paired and (d.paired.low > 0 or d.paired.high < 0):
        p = d.paired
        what = f"run 2's answers are {p.mean:+,.0f} tokens long on average, between {p.low:+,.0f} and {p.high:+,.0f}"
        label("lengths", f"{name}: {what}, over {count(p.conversations)} conversations of both", style="yellow")
    if d.pairs.other_history:
        what = f"{count(d.pairs.other_history)} later turns follow answers that differ: not compared"
        label("turns", f"{name}: {what}", style="dim")
    for example in d.pairs.examples:
        turn = f", turn {example.turn}" if example.turn else ""
        what = "its prompt has other ids" if example.at is None else f"other answer from id {example.at} on"
        label("", f"  {name} {example.id[:12]} ({example.where or 'no source'}){turn}: {what}", style="dim")


def _show_states(name: str, d: "DatasetDiff") -> None:
    from draftmill.cli.console import count, label

    states = [
        f"{field.replace('_', ' ')} {count(a)} → {count(b)}"
        for field in d.states[0].__struct_fields__
        if (a := getattr(d.states[0], field)) != (b := getattr(d.states[1], field))
    ]
    if states:
        label("states", f"{name}: {', '.join(states)}")
    for run, budget, reached in zip((1, 2), d.budgets, d.reached, strict=True):
        if reached is False:
            label("budget", f"{name}: run {run} has not reached its {count(budget or 0)} tokens", style="yellow")
