"""``draftmill export``: the counting rows of a run in a trainer's format."""

from pathlib import Path
from typing import Annotated

import typer

from draftmill.cli.options import Json, Only


def export(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    format: Annotated[str, typer.Option(help="jsonl: one row a line, input_ids and loss_mask.")] = "jsonl",
    to: Annotated[Path | None, typer.Option(help="The file to write; RUN/export/rows.jsonl unless given.")] = None,
    only: Only = None,
    drop: Annotated[list[str] | None, typer.Option(help="Leave rows out by name: truncated. Repeatable.")] = None,
    json: Json = False,
) -> None:
    """Write the rows that count, of all datasets of a run, for a trainer.

    Example: draftmill export runs/kimi --format jsonl --to data/kimi.jsonl
    """
    import msgspec

    from draftmill.cli.console import count, label, many, result
    from draftmill.export.jsonl import export_jsonl, formats

    if format not in formats:
        raise typer.BadParameter(f"{format!r} is not known; there is {', '.join(formats)}", param_hint="--format")
    target = to or run / "export" / "rows.jsonl"
    report = export_jsonl(run, target, only=tuple(only or ()), drop=tuple(drop or ()))
    for note in report.notes:
        label("incomplete", note, style="yellow")
    if json:
        typer.echo(msgspec.json.encode({"file": str(target), **msgspec.to_builtins(report)}).decode())
    with result(json=json):
        for name, kept in report.rows.items():
            label(name, many(kept, "row"))
        for reason, dropped in report.dropped.items():
            label("dropped", f"{many(dropped, 'row')}: {reason}", style="yellow")
        written = f"{many(sum(report.rows.values()), 'row')}, {count(report.supervised)} supervised tokens"
        label("written", f"{written}: {target}")
