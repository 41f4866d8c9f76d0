"""Read a recipe's file: every fault at once, each with its line, its path in the file and what would be right."""

from pathlib import Path
from typing import Any

import yaml

from draftmill.errors import RecipeError
from draftmill.recipe.faults import validate
from draftmill.recipe.model import Recipe
from draftmill.recipe.overrides import Overrides, apply


class _Loader(yaml.SafeLoader):
    """YAML without dates: 2026-01-31 is a text, as a dataset's name or for a template."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def load(path: Path, overrides: Overrides | None = None) -> Recipe:
    """Read, override and validate a recipe file. Raises RecipeError with every fault, line and path."""
    start = "`draftmill init` writes a commented one"
    try:
        data, node = read_yaml(path)
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such recipe", [], start) from None
    if not isinstance(data, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of model, engines, datasets …", [], start)
    return validate(apply(data, overrides or Overrides()), str(path), node)


def read_yaml(path: Path) -> tuple[Any, yaml.Node | None]:
    """A file's content, and its tree for line numbers. Raises RecipeError for no YAML, FileNotFoundError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RecipeError(f"{path}: cannot be read: {reason}", []) from None
    try:
        return yaml.load(text, Loader=_Loader), yaml.compose(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        first = str(getattr(error, "problem", None) or error).splitlines()[0]
        raise RecipeError(f"{place}: not valid YAML: {first}", []) from None
    except RecursionError:
        raise RecipeError(f"{path}: not a recipe: it is nested too deeply", []) from None
