"""What the command line lays over a recipe."""

import re
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from draftmill.errors import RecipeError
from draftmill.recipe.count import parse_count
from draftmill.recipe.faults import explained_values
from draftmill.recipe.fit import as_engine, as_list, one_of
from draftmill.recipe.model import EngineSpec, check_concurrency
from draftmill.recipe.part import Part


class Overrides(Part):
    """What the command line lays over a recipe.

    ``concurrency`` and ``max_new_tokens`` are as typed: ``64`` for every lane, or ``short=150,long=32``; so are
    ``budget`` and ``samples``, by dataset.
    """

    only: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    budget: str | None = None
    samples: str | None = None
    concurrency: str | None = None
    max_new_tokens: str | None = None
    native_tools: bool = False


def apply(data: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    """A copy of the raw recipe with the overrides laid over it. Raises RecipeError with each that is wrong or names
    nothing; faults of the recipe itself are left to ``validate``."""
    faults: list[str] = []
    data = dict(data)
    if overrides.engines:
        data["engines"] = list(overrides.engines)
        faults += [f"--engine: {reason}" for text in overrides.engines for reason in _engine_faults(text)]
    datasets = [dict(d) if isinstance(d, dict) else d for d in as_list(data.get("datasets"))]
    names = [d["name"] for d in datasets if isinstance(d, dict) and isinstance(d.get("name"), str)]
    for only in overrides.only if names else ():
        if only not in names:
            faults.append(f"--only {only}: no dataset {one_of(only, names)}")
    meant = [d for d in datasets if isinstance(d, dict) and (not overrides.only or d.get("name") in overrides.only)]
    for field in ("budget", "samples"):
        if (text := getattr(overrides, field)) is None:
            continue
        faults += _override_datasets(meant, field, text)
    for dataset in meant if overrides.native_tools else ():
        dataset["native_tools"] = True
    if datasets:
        data["datasets"] = datasets
    for field in ("concurrency", "max_new_tokens"):
        if (text := getattr(overrides, field)) is not None:
            data["lanes"] = _override_lanes(data.get("lanes") or {"short": {}}, field, text, faults)
    if faults:
        raise RecipeError("an override does not fit", faults)
    return data


def _engine_faults(text: str) -> list[str]:
    try:
        EngineSpec.model_validate(as_engine(text))
    except ValidationError as error:
        whole = f"{EngineSpec.__name__.lower()}: "  # of a fault that is no single key's
        return [line.removeprefix(whole) for line in explained_values(error, EngineSpec)]
    return []


def _value_faults(parse: Callable[[str], object], typed: str, option: str) -> list[str]:
    try:
        parse(typed)
    except ValueError as error:
        return [f"{option}: {error}"]
    return []


def _override_datasets(datasets: list[dict[str, Any]], field: str, text: str) -> list[str]:
    """Set a count of every dataset, or of those that are named. Returns what is wrong."""
    faults: list[str] = []
    names = [str(dataset.get("name")) for dataset in datasets]
    for part in map(str.strip, text.split(",")):
        target, _, typed = (word.strip() for word in part.rpartition("="))
        if target and names and target not in names:
            faults.append(f"--{field} {part}: no dataset {one_of(target, names)}")
        elif wrong := _value_faults(parse_count, typed, f"--{field} {part or repr(part)}"):
            faults += wrong
        for dataset in datasets:
            if dataset.get("name") == target or not target:
                dataset[field] = typed
    return faults


def _override_lanes(lanes: object, field: str, text: str, faults: list[str]) -> object:
    if not isinstance(lanes, dict):
        return lanes  # validation will name the fault
    option = "--" + field.replace("_", "-")
    lanes = {name: dict(lane or {}) if isinstance(lane, dict | None) else lane for name, lane in lanes.items()}
    parse = _concurrency if field == "concurrency" else parse_count
    for part in map(str.strip, text.split(",")):
        target, _, typed = (word.strip() for word in part.rpartition("="))
        if target and target not in lanes:
            faults.append(f"{option} {part}: no lane {one_of(target, list(lanes))}")
        elif wrong := _value_faults(parse, typed, f"{option} {part or repr(part)}"):
            faults += wrong
        else:
            for lane in [target] if target else lanes:
                if isinstance(lanes[lane], dict):
                    lanes[lane][field] = parse(typed)
    return lanes


def _concurrency(typed: str) -> object:
    return check_concurrency(int(typed) if re.fullmatch("[0-9]{1,9}", typed) else typed)
