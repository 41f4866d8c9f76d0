"""Options that several verbs share, and how they lay over a recipe."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from draftmill.recipe import Overrides

RecipePath = Annotated[Path, typer.Argument(help="The recipe, a YAML file (`draftmill init` writes one).")]


def _folder(name: str) -> Path:
    if not name.strip():
        raise typer.BadParameter("is empty: name the run's folder, or leave it out")
    path = Path(name)
    with suppress(OSError):  # what cannot even be looked at is told where the folder is made
        if file := next(filter(Path.is_file, (path, *path.parents)), None):
            raise typer.BadParameter(f"{file} is a file: name a folder for the run")
    return path


Out = Annotated[
    Path | None,
    typer.Option(parser=_folder, metavar="PATH", help="The run's folder; runs/<recipe's name> unless given."),
]
Only = Annotated[list[str] | None, typer.Option(help="Only this dataset; may be given several times.")]
Samples = Annotated[
    str | None, typer.Option(help="At most so many prompts, of every dataset or by dataset: 10k, chat=2k.")
]
Budget = Annotated[str | None, typer.Option(help="Token budget, of every dataset or by dataset: 10M, chat=250k.")]
NativeTools = Annotated[
    bool,
    typer.Option("--native-tools", help="Lift tools that stand as text in system prompts into the model's own form."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON on stdout.")]


def overrides(
    *,
    only: list[str] | None = None,
    engine: list[str] | None = None,
    budget: str | None = None,
    samples: str | None = None,
    concurrency: str | None = None,
    max_new_tokens: str | None = None,
    native_tools: bool = False,
) -> "Overrides":
    """The command line's values for a recipe."""
    from draftmill.recipe import Overrides

    return Overrides(
        only=tuple(only or ()),
        engines=tuple(engine or ()),
        budget=budget,
        samples=samples,
        concurrency=concurrency,
        max_new_tokens=max_new_tokens,
        native_tools=native_tools,
    )


def refuse_no_run(run: Path) -> None:
    """A watcher reads whatever it finds of a run, of other versions too. Raises UsageFault where there is nothing."""
    from draftmill.errors import UsageFault
    from draftmill.journal.folder import DatasetFolder, RunFolder

    folder = RunFolder(run)
    begun = (folder.settings, folder.lock, folder.events, DatasetFolder(run).journal)
    if not any(file.exists() for file in begun) and not folder.begun():
        raise UsageFault(f"{run}: holds no run", "give the folder that `draftmill run` made")


def run_folder(recipe: Path, out: Path | None) -> Path:
    """Where a recipe's run lies."""
    return out or Path("runs") / recipe.stem


def variables(given: list[str]) -> dict[str, Any]:
    """The chat template's variables: ``enable_thinking=false`` as YAML reads it."""
    import yaml

    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise typer.BadParameter(f"{text!r} is not of the form name=value", param_hint="--template")
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise typer.BadParameter(f"{text!r}: its value is not valid YAML", param_hint="--template") from None
    return found
