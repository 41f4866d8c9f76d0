"""``draftmill init``: a commented recipe to start from."""

from pathlib import Path
from typing import Annotated

import typer

from draftmill import examples
from draftmill.errors import StorageError


def init(
    path: Annotated[Path, typer.Argument(help="Where to write the recipe.")] = Path("recipe.yaml"),
) -> None:
    """Write a commented recipe, ready to be edited.

    Example: draftmill init recipe.yaml
    """
    from draftmill.cli.console import advise, command, label, result

    template = examples.RECIPE
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template.read_text(encoding="utf-8"))
    except FileExistsError:
        raise StorageError(f"{path}: exists already and is left as it is", "give another path") from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from None
    with result():
        label("recipe", f"{path} written")
        advise(f"edit it, then look at the data with: {command('draftmill', 'prepare', path)}")
