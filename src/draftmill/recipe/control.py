"""What a run does otherwise than its recipe says: ``control.yaml`` in its folder, which it follows while it is on.

The file says what shall be, not what shall be done: it holds for as long as it stands there, over restarts too.
"""

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from draftmill.errors import RecipeError
from draftmill.recipe.count import Count
from draftmill.recipe.faults import explained
from draftmill.recipe.file import read_yaml
from draftmill.recipe.fit import EMBEDDED, one_of
from draftmill.recipe.model import Concurrency, EngineSpec, Recipe, check_concurrency
from draftmill.recipe.part import Part
from draftmill.recipe.server import plain_url, server_of

Wish = bool | int | str | dict[str, Any]


def _engines(wishes: object) -> object:
    if not isinstance(wishes, dict):
        return wishes
    try:
        return {name if name == EMBEDDED else plain_url(str(name)): wish for name, wish in wishes.items()}
    except ValueError as error:
        raise ValueError(f"a key {error}") from None  # which is not repeated: people put passwords there


class Control(Part):
    """``concurrency`` is by lane, ``budgets`` by dataset, ``engines`` by URL (or ``embedded``).

    Of an engine: false takes it out, true puts it in, a number or ``auto`` is its concurrency, a mapping holds the keys
    that a recipe has for an engine.
    """

    pause: bool = False
    concurrency: dict[str, Concurrency] = Field(default_factory=dict)
    budgets: dict[str, Count] = Field(default_factory=dict)
    engines: Annotated[dict[str, Wish], BeforeValidator(_engines)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> "Control":
        servers: dict[str, str] = {}
        for url in self.engines:
            if (other := servers.setdefault(_key(url), url)) != url:
                raise ValueError(f"engines: {other} and {url} are the same server")
        for url, wish in self.engines.items():
            try:
                _spec(_bare(url), wish)
            except ValueError as error:
                raise ValueError(f"engines.{url}: {_first(error)}") from None
        return self

    def over(self, recipe: Recipe) -> Recipe:
        """The recipe as it holds now. Raises RecipeError for a lane or a dataset that it does not have."""
        names = [dataset.name for dataset in recipe.datasets]
        faults = [
            f"concurrency: no lane {one_of(n, list(recipe.lanes))}" for n in self.concurrency.keys() - recipe.lanes
        ]
        faults += [f"budgets: no dataset {one_of(n, names)}" for n in self.budgets.keys() - set(names)]
        if faults:
            raise RecipeError("the control file does not fit the run", sorted(faults))
        now = {
            "lanes": {n: _with(lane, "concurrency", self.concurrency.get(n)) for n, lane in recipe.lanes.items()},
            "datasets": [_with(dataset, "budget", self.budgets.get(dataset.name)) for dataset in recipe.datasets],
            "engines": self._engines(recipe),
        }
        return recipe.model_copy(update=now)

    def engines_with(self, wishes: dict[str, Wish]) -> dict[str, Wish]:
        """The wishes for engines with these laid over them, whatever a server is called in either."""
        new = {_key(url) for url in wishes}
        return {url: wish for url, wish in self.engines.items() if _key(url) not in new} | wishes

    def knows(self, url: str, recipe: Recipe) -> bool:
        """Whether the recipe has this engine, or this file says anything of it."""
        return _key(url) in {_key(each) for each in (*self.engines, *(s.url or EMBEDDED for s in recipe.engines))}

    def text(self) -> str:
        """The text of a control file: what differs from nothing at all."""
        data = self.model_dump(mode="json", exclude_defaults=True)
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=True) if data else ""

    def _engines(self, recipe: Recipe) -> list[EngineSpec]:
        wishes = {_key(url): wish for url, wish in self.engines.items()}
        known = [(_key(spec.url or EMBEDDED), spec) for spec in recipe.engines]
        there = {key for key, _ in known}
        known += [(_key(url), _bare(url)) for url in self.engines if _key(url) not in there]
        wanted = [(spec, wishes.get(key, True)) for key, spec in known]
        return [_spec(spec, wish) for spec, wish in wanted if wish is not False]


def read_control(path: Path) -> Control:
    """What stands in a run's control file; nothing of its own where there is none. Raises RecipeError, with lines."""
    try:
        data, node = read_yaml(path)
    except FileNotFoundError:
        return Control()
    return check_control({} if data is None else data, str(path), node)


def check_control(data: object, name: str, node: yaml.Node | None = None) -> Control:
    """Raises RecipeError with every fault; ``name`` is what they are said of."""
    try:
        return Control.model_validate(data)
    except ValidationError as error:
        raise RecipeError(f"{name}: cannot be followed", explained(error, Control, name, node)) from None


def _key(url: str) -> str:
    return url if url == EMBEDDED else server_of(url)


def _bare(url: str) -> EngineSpec:
    return EngineSpec.model_validate({"kind": EMBEDDED} if url == EMBEDDED else {"url": url})


def _spec(spec: EngineSpec, wish: Wish) -> EngineSpec:
    match wish:
        case bool():
            return spec
        case dict():
            return EngineSpec.model_validate(spec.model_dump() | wish | {"url": spec.url})
        case _:
            return EngineSpec.model_validate(spec.model_dump() | {"concurrency": check_concurrency(wish)})


def _first(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return " ".join([*map(str, first["loc"]), str(first["msg"]).removeprefix("Value error, ")])


def _with(part: Any, field: str, value: object) -> Any:
    return part if value is None else part.model_copy(update={field: value})
