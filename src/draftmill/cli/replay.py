"""``draftmill verify --replay``: which engine is meant, and what it said."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from draftmill.recipe import EngineSpec, Recipe, Sampling
    from draftmill.verify.likeness import Judged
    from draftmill.verify.replaying import Replaying

_OPTION = "--replay"
_COLOURS = {
    "same model": "green",
    "same model, lower precision": "yellow",
    "another model, template or sampler": "red",
    "too few ids to tell": "yellow",
}


def replaying(
    engine: str,
    rows: int | None,
    seed: int | None,
    sampling: str | None,
    api_key_env: str | None,
    data: Path,
    model: str | None,
) -> "Replaying":
    """The engine that an option names: a URL, ``embedded``, or a ``.gguf`` file for the embedded one. ``model`` is what
    the command line says that a file's ids are of."""
    from draftmill.verify.replaying import ROWS, Replaying

    recipe = _recipe(data)
    if recipe and sampling:
        raise typer.BadParameter("does not apply here: the run knows how it sampled", param_hint="--sampling")
    spec, gguf = _engine(engine, recipe, api_key_env, model)
    return Replaying(spec, gguf, rows or ROWS, seed or 0, _sampling(sampling or ""), _progress())


def show(judged: "Judged") -> None:
    """Print what an engine said of rows."""
    from draftmill.cli.console import count, label, many

    label("replay", f"{judged.engine} scored {many(judged.rows, 'row')}, {count(judged.ids)} ids")
    for name, figures in judged.figures.items():
        for figure in figures:
            label("", f"  {name}: {figure}", style="dim")
    for row in judged.silent[:3]:
        label("", f"  not scored: {row}", style="yellow")
    if len(judged.silent) > 3:
        label("", f"  and {many(len(judged.silent) - 3, 'row')} more that could not be scored", style="yellow")
    label("verdict", judged.verdict.value, style=_COLOURS[judged.verdict])
    if judged.resolution is not None and judged.verdict == "same model":
        label(
            "",
            f"  so many sampled ids would show {judged.resolution:.2g} nats an id; lower precision makes less, "
            "and shows in greedy rows",
            style="dim",
        )


def _recipe(data: Path) -> "Recipe | None":
    from draftmill.journal.folder import RunFolder
    from draftmill.ledger.settings import read_settings
    from draftmill.recipe import Recipe

    settings = read_settings(RunFolder(data))
    return Recipe.model_validate(settings.recipe) if settings else None


def tokenizer_of(model: str | None) -> str | None:
    """Where the tokenizer of a model lies that is named as in a recipe."""
    from draftmill.engines.small_model import small_model
    from draftmill.recipe import SMALL_MODEL

    return str(small_model()) if model == SMALL_MODEL else model


def _engine(
    text: str, recipe: "Recipe | None", api_key_env: str | None, model: str | None
) -> "tuple[EngineSpec, Path | None]":
    from pydantic import ValidationError

    from draftmill.recipe import EMBEDDED, EngineSpec

    own = recipe.engines if recipe else []
    if text.endswith(".gguf"):
        return EngineSpec(kind="embedded"), Path(text)
    if text == EMBEDDED:
        spec = next((spec for spec in own if spec.kind == EMBEDDED), EngineSpec(kind="embedded"))
        return spec, Path(spec.gguf) if spec.gguf else _model_of(recipe.model if recipe else model)
    try:
        spec = EngineSpec.model_validate({"url": text})
    except ValidationError:
        raise typer.BadParameter(
            f"{text!r} is neither a server's URL nor `embedded` nor a .gguf file", param_hint=_OPTION
        ) from None
    spec = next((known for known in own if known.url == spec.url), spec)
    return (spec.model_copy(update={"api_key_env": api_key_env}) if api_key_env else spec), None


def _model_of(model: str | None) -> Path:
    """The GGUF file that a model is."""
    found = tokenizer_of(model)
    if found and found.endswith(".gguf"):
        return Path(found)
    raise typer.BadParameter("nobody says which model the embedded engine has: give its .gguf file", param_hint=_OPTION)


def _sampling(text: str) -> "Sampling":
    """``temperature=0.7,top_p=0.95``; what is not given is neutral."""
    from pydantic import ValidationError

    from draftmill.recipe import Sampling

    values = dict(part.strip().partition("=")[::2] for part in text.split(",") if part.strip())
    try:
        return Sampling.model_validate({name: float(value) for name, value in values.items()})
    except (ValidationError, ValueError):
        known = ", ".join(Sampling.model_fields)
        raise typer.BadParameter(
            f"{text!r} is not like temperature=0.7,top_p=0.95; there are {known}", param_hint="--sampling"
        ) from None


def _progress() -> Callable[[int, int], None]:
    """Tells of long work now and then."""
    import time

    from draftmill.cli.console import label, many

    told = time.monotonic()

    def tell(done: int, of: int) -> None:
        nonlocal told
        if (now := time.monotonic()) - told > 10.0:
            told = now
            label("replaying", f"{done} of {many(of, 'row')}")

    return tell
