"""``draftmill monitor``: see a run, beside it or after it, from its files alone."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftmill.cli.options import refuse_no_run

if TYPE_CHECKING:
    from draftmill.watch.stats import RunWatch

_PLAIN_EVERY = 10.0  # seconds between two looks in a log
_LIVE_EVERY = 1.0


def monitor(
    run: Annotated[Path, typer.Argument(help="The run's folder; one of another version will do.")],
    once: Annotated[bool, typer.Option("--once", help="Print what is so now, and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print all figures once, as JSON on stdout.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Text again and again instead of the live view.")] = False,
    log: Annotated[
        list[str] | None, typer.Option(help="A server's own log: PATH, or URL=PATH of an engine; repeatable.")
    ] = None,
    every: Annotated[
        float | None, typer.Option(min=0.2, help="Seconds between two looks; 1, or 10 in a pipe.", show_default=False)
    ] = None,
) -> None:
    """What a run does, what bounds it, and what to do about it. Reads its files only, so it never slows or locks it.

    In the live view: p pauses and resumes, c changes a cap, b a budget, tab goes on to engines, errors and answers.

    Example: draftmill monitor runs/kimi
    """
    from draftmill.errors import UsageFault
    from draftmill.watch.serverlog import ServerLog
    from draftmill.watch.stats import RunWatch

    logs = []
    for text in log or ():
        url, _, path = text.rpartition("=") if "://" in text.partition("=")[0] else ("", "", text)
        if not Path(path).is_file():
            raise UsageFault(f"{path}: no log lies there", "give the file that the server writes its output to")
        logs.append(ServerLog(Path(path), url.rstrip("/") or None))
    if not logs:
        refuse_no_run(run)
    watch = RunWatch(run, logs=logs)
    if json:
        typer.echo(_json(watch))
    elif once:
        _show(watch)
    elif not plain and sys.stdout.isatty() and _textual():
        from draftmill.watch.monitor import Monitor

        Monitor(watch, every=every or _LIVE_EVERY).run()
    else:
        _again_and_again(watch, every or _PLAIN_EVERY)


def _textual() -> bool:
    """Whether the live view can be had; without it the plain one serves."""
    from importlib.util import find_spec

    from draftmill.cli.console import advise

    if find_spec("textual") is None:
        advise("for the live view: pip install 'draftmill[monitor]'")
        return False
    return True


def _json(watch: "RunWatch") -> str:
    import msgspec

    from draftmill.watch.diagnosis import diagnose

    figures = watch.refresh()
    return msgspec.json.encode({"figures": figures, "findings": diagnose(figures)}).decode()


def _show(watch: "RunWatch") -> bool:
    """Print the overview. Whether more may come."""
    from draftmill.cli.console import out
    from draftmill.watch.diagnosis import diagnose
    from draftmill.watch.figures import Phase
    from draftmill.watch.overview import overview

    figures = watch.refresh()
    out.print(overview(figures, diagnose(figures), out.width))
    writing = bool(figures.held) and any(d.written != d.rows for d in figures.datasets)
    return figures.phase not in (Phase.ENDED, Phase.GONE, Phase.FILES) or (figures.phase is Phase.ENDED and writing)


def _again_and_again(watch: "RunWatch", every: float) -> None:
    """Until the run has ended, or Ctrl-C."""
    from draftmill.cli.console import out

    while _show(watch):
        sys.stdout.flush()
        time.sleep(every)
        out.print()
        out.rule(characters="─", style="dim")
