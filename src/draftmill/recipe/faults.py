"""A raw recipe checked: every fault in words, with its line and its path. Secrets are never repeated."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from draftmill.errors import RecipeError
from draftmill.recipe.dataset import Dataset, LongPrompts
from draftmill.recipe.fit import CrossFaults, Fault, cross_faults
from draftmill.recipe.markers import Markers
from draftmill.recipe.model import EngineSpec, Lane, Recipe
from draftmill.recipe.sampling import Sampling


def validate(data: Mapping[str, Any], name: str, node: yaml.Node | None = None) -> Recipe:
    """Check a raw recipe. ``node`` is its YAML tree, for line numbers. Raises RecipeError."""
    faults = list(_repeated(node, ()))
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        faults += [fault for e in error.errors() for fault in _explain(e, Recipe)]
        if not any(isinstance((e.get("ctx") or {}).get("error"), CrossFaults) for e in error.errors()):
            faults += cross_faults(data)
    else:
        if not faults:
            return recipe
    lines = _placed(faults, name, node, "recipe")
    raise RecipeError(f"{name}: {'one fault' if len(lines) == 1 else f'{len(lines)} faults'} in the recipe", lines)


def explained(error: ValidationError, part: type[BaseModel], name: str, node: yaml.Node | None) -> list[str]:
    """What is wrong with a file that holds one ``part``: a line for each fault."""
    faults = [fault for e in error.errors() for fault in _explain(e, part)]
    return _placed([*_repeated(node, ()), *faults], name, node, part.__name__.lower())


def _placed(faults: list[Fault], name: str, node: yaml.Node | None, whole: str) -> list[str]:
    placed = sorted((_line(node, loc) or 0, number, loc, reason) for number, (loc, reason) in enumerate(faults))
    return [f"{name}{f':{line}' if line else ''}: {_path(loc) or whole}: {why}" for line, _, loc, why in placed]


def _explain(error: Any, whole: type[BaseModel]) -> Iterable[Fault]:
    """The faults that one error of pydantic stands for."""
    cause = (error.get("ctx") or {}).get("error")
    if isinstance(cause, CrossFaults):
        yield from cause.faults
        return
    loc = tuple(p for p in error["loc"] if p != "[key]")
    yield loc, _reason(error, _owner(loc, whole), str(loc[-1]) if loc else "")


def _path(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")


def _owner(loc: tuple[int | str, ...], whole: type[BaseModel]) -> type[BaseModel] | None:
    """The model whose field a location names, to offer the closest of its keys."""
    parents: dict[int | str, type[BaseModel]] = {
        "datasets": Dataset,
        "engines": EngineSpec,
        "sampling": Sampling,
        "lanes": Lane,
        "markers": Markers,
    }
    if len(loc) < 2:
        return whole
    inner: dict[int | str, type[BaseModel]] = {"sampling": Sampling, "long_prompts": LongPrompts}
    return inner.get(loc[-2]) or parents.get(loc[0])


_SECRET = ("url", "api_key_env", "engines")  # people put passwords and keys there: what stands there is never repeated
_WORDS = {
    "missing": "is missing",
    "invalid_key": "should be a text",
    "string_type": "should be a text; put it in quotes",
    "string_too_short": "is empty",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "list_type": "should be a list",
    "dict_type": "should be a mapping of keys to values",
    "model_type": "should be a mapping of keys to values",
    "too_short": "is empty; at least one is needed",
}


def _reason(error: Any, owner: type[BaseModel] | None, key: str) -> str:
    kind, message = error["type"], str(error["msg"]).removeprefix("Value error, ")
    if kind == "extra_forbidden":
        keys = list(owner.model_fields) if owner else []
        close = difflib.get_close_matches(key, keys, n=1)
        return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; there are {', '.join(keys)}"
    reason = _WORDS.get(kind, message.replace("Input should be", "should be", 1))
    value = error.get("input")
    if key in _SECRET or kind == "missing" or not isinstance(value, str | int | float | bool | None):
        return reason
    return f"{'nothing' if value is None else repr(value)} {reason}"


def _repeated(node: yaml.Node | None, loc: tuple[int | str, ...]) -> Iterable[Fault]:
    """Keys that stand twice in one mapping: YAML would take the last without a word."""
    if len(loc) > 8:  # deeper than any key of ours, and an alias may hold itself
        return
    if isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in first:
                yield (*loc, key.value), f"stands twice, in line {first[key.value]} and {key.start_mark.line + 1}"
            first.setdefault(key.value, key.start_mark.line + 1)
            yield from _repeated(value, (*loc, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            yield from _repeated(item, (*loc, i))


def _line(node: yaml.Node | None, loc: tuple[int | str, ...]) -> int | None:
    """The line, from 1, of the deepest part of ``loc`` that the YAML tree holds."""
    mark = node.start_mark if node else None
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if pair is None:
                break
            mark, node = pair[0].start_mark, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            mark = node.start_mark
        else:
            break
    return mark.line + 1 if mark else None
