"""The target of a recipe: where its tokenizer comes from, and which GGUF file the embedded engine would serve."""

from dataclasses import dataclass
from pathlib import Path

from draftmill.engines.small_model import small_model
from draftmill.recipe import EMBEDDED, SMALL_MODEL, Recipe


@dataclass(frozen=True)
class Target:
    """``tokenizer`` is a directory, a hub id or a GGUF file; ``gguf`` what an embedded engine serves, if anything."""

    tokenizer: str
    gguf: Path | None


def resolve(recipe: Recipe, base: Path) -> Target:
    """Find the recipe's model. Relative paths start at ``base``, the recipe's folder."""
    model = _place(recipe.model, base)
    return Target(
        tokenizer=_place(recipe.tokenizer, base) if recipe.tokenizer else model,
        gguf=Path(model) if model.endswith(".gguf") else None,
    )


def engine_specs(recipe: Recipe, base: Path) -> Recipe:
    """The recipe with the embedded engines' own GGUF paths resolved."""
    engines = [
        spec.model_copy(update={"gguf": _place(spec.gguf, base)}) if spec.kind == EMBEDDED and spec.gguf else spec
        for spec in recipe.engines
    ]
    return recipe.model_copy(update={"engines": engines})


def _place(name: str, base: Path) -> str:
    if name == SMALL_MODEL:
        return str(small_model())
    path = base / Path(name).expanduser()
    return str(path) if path.exists() or name.endswith(".gguf") else name
