"""The two sides of ``draftmill compare``: servers by their URLs, embedded ones, and servers that a recipe plans."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from draftmill.capacity.launch import Launch
    from draftmill.compare.setting import Check, Setting
    from draftmill.engines.protocol import Engine
    from draftmill.recipe import EngineSpec

_RECIPES = (".yaml", ".yml")
_NO_REASON = ("quantised_kv", "token_limit")  # to refuse here: the one is what is compared, the other is about a run


class Side(NamedTuple):
    """One side as it was typed: an engine that a recipe could name, or one that is launched. ``model`` is what it
    serves, where that is known."""

    text: str
    model: str | None
    spec: "EngineSpec | None" = None
    launch: "Launch | None" = None

    def setting(self, gguf: Path | None, check: "Check", logs: Path) -> "Setting":
        """What is asked. The server of a launch keeps its log in ``logs``."""
        from draftmill.compare.setting import Setting, of_spec

        if self.spec:
            return of_spec(self.text, self.spec, gguf, check)
        assert self.launch
        opened = partial(_launched, self.launch, logs)
        return Setting(self.text, opened, check, context=self.launch.context, standing=False)


def side(text: str, name: str) -> Side:
    """A side as it was typed: ``recipe.yaml:kv=fp8`` is the server of that recipe's plan with these values.

    ``name`` is A or B. Raises BadParameter, RecipeError, and RunError for a plan that refuses its server.
    """
    path, _, values = text.partition(":")
    if Path(path).suffix in _RECIPES:
        return _planned(text, Path(path), values)
    spec = _spec(text, name)
    return Side(text, spec.gguf or _embedded(spec), spec)


def _embedded(spec: "EngineSpec") -> str | None:
    from draftmill.recipe import EMBEDDED, SMALL_MODEL

    return SMALL_MODEL if spec.kind == EMBEDDED else None


def _planned(text: str, path: Path, values: str) -> Side:
    """The launch of a recipe's plan."""
    from draftmill import recipe as recipes
    from draftmill.cli.options import run_folder
    from draftmill.cli.plan import planned
    from draftmill.errors import RunError
    from draftmill.mill.target import resolve
    from draftmill.plan.sheet import draw, launch

    loaded = recipes.load(path, recipes.Overrides())
    settled, facts, demands = planned(loaded, path.parent, run_folder(path, None), [values] if values else [])
    refused = [r for r in draw(settled.plan, facts, demands).refusals if r.rule not in _NO_REASON]
    if refused:
        raise RunError(f"{text}: the plan refuses this server: {refused[0].message}", refused[0].advice)
    return Side(text, resolve(loaded, path.parent).tokenizer, launch=launch(settled.plan, facts))


@asynccontextmanager
async def _launched(launch: "Launch", logs: Path) -> "AsyncIterator[Engine]":
    from draftmill.cli.launching import tell
    from draftmill.compare.setting import connected
    from draftmill.recipe import EngineSpec
    from draftmill.serve.fleet import launched

    async with (
        launched(launch, logs, tell=tell) as url,
        connected(EngineSpec.model_validate({"url": url, "kind": launch.kind}), None) as engine,
    ):
        yield engine


def _spec(text: str, name: str) -> "EngineSpec":
    """An engine as it may stand in a recipe."""
    import yaml
    from pydantic import ValidationError

    from draftmill.recipe import EngineSpec, as_engine, explained_values

    try:
        return EngineSpec.model_validate(as_engine(yaml.safe_load(text) if text.startswith("{") else text))
    except yaml.YAMLError:
        raise typer.BadParameter("is not valid YAML", param_hint=name) from None
    except ValidationError as error:
        raise typer.BadParameter("; ".join(explained_values(error, EngineSpec)), param_hint=name) from None
