"""The command ``draftmill``: its verbs, and the one place where an error becomes words and an exit status."""

import sys
from typing import Annotated

import typer

from draftmill import __version__
from draftmill.cli import (
    adopt,
    compare,
    control,
    diff,
    drift,
    export,
    init,
    monitor,
    plan,
    prepare,
    quickstart,
    report,
    run,
    serve,
    verify,
)
from draftmill.cli.console import label, say_error
from draftmill.errors import DraftmillError, StorageError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `draftmill quickstart`, then `draftmill init` for a recipe of your own.",
)
app.command()(quickstart.quickstart)
app.command()(init.init)
app.command()(plan.plan)
app.command()(serve.serve)
app.command()(prepare.prepare)
app.command()(adopt.adopt)
app.command()(run.run)
app.command()(monitor.monitor)
app.command()(report.report)
app.command()(control.control)
app.command()(drift.drift)
app.command()(verify.verify)
app.command()(compare.compare)
app.command()(diff.diff)
app.command()(export.export)


def _version(asked: bool) -> None:
    if asked:
        print(f"draftmill {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """On-policy, token-exact training data for speculative-decoding drafters, out of the model that you serve."""


def main() -> None:
    """Run the command line. Exit statuses: 0 what was promised holds, 1 it does not, 2 usage, 130 interrupted."""
    try:
        app()
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):  # typer says nothing of Ctrl-C
            label("stopped", "interrupted", style="yellow")
        raise
    except DraftmillError as error:
        say_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)  # whoever read our output has gone
    except OSError as error:  # a folder where a file belongs, a missing right: one line with the file, not a traceback
        place = f"{error.filename}: " if error.filename else ""
        say_error(StorageError(f"{place}{error.strerror or error}", "mend the file or the rights, then run it again"))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
