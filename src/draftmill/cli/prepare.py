"""``draftmill prepare``: read, order and render every dataset, without any engine."""

from typing import Annotated

import typer

from draftmill.cli.options import Json, NativeTools, Only, Out, RecipePath, Samples, overrides, run_folder


def prepare(
    recipe: RecipePath,
    out: Out = None,
    only: Only = None,
    samples: Samples = None,
    native_tools: NativeTools = False,
    cores: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes to work with; one a core unless given.")
    ] = None,
    json: Json = False,
) -> None:
    """Make the prompts of a run, and tell what there is in datasets and model; needs no engine.

    Example: draftmill prepare recipe.yaml --out runs/kimi
    """
    import msgspec

    from draftmill import recipe as recipes
    from draftmill.cli import account
    from draftmill.cli.console import advise, command, result
    from draftmill.cli.run import interruptible
    from draftmill.cli.story import Story
    from draftmill.mill.run import open_run

    loaded = recipes.load(recipe, overrides(only=only, samples=samples, native_tools=native_tools))
    folder = run_folder(recipe, out)
    with interruptible(), open_run(loaded, recipe.parent, folder, only=tuple(only or ()), observer=Story()) as run:
        reports = run.prepare(cores)
        found = run.find()
        run.accept()
    if json:
        figures = {name: msgspec.to_builtins(r) | {"findings": found[name]} for name, r in reports.items()}
        typer.echo(msgspec.json.encode(figures).decode())
    again = command("draftmill", "run", recipe, "--out", folder, "--native-tools" if native_tools else "")
    with result(json=json):
        account.show(reports)
        if any(r.unread for r in reports.values()):
            advise(f"every unread row, with its file and line: {folder}/*/unread.jsonl")
        advise(f"generate with: {again}")
