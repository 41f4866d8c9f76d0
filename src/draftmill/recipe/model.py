"""What a recipe holds: a pydantic model a part, unknown keys refused."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from draftmill.recipe.markers import Markers
from draftmill.recipe.part import Part, one_of
from draftmill.recipe.server import plain_url, server_of
from draftmill.recipe.verify import Verify

SMALL_MODEL = "smollm2"  # the chat model that draftmill can fetch by itself, from a PyPI wheel
EMBEDDED = "embedded"

_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}
_COUNT = re.compile(r"([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?)\s*([kmbg]?)", re.IGNORECASE)
_MOST = 10**15  # more tokens than anybody has, and safe in 64 bits
_TAKEN_NAMES = frozenset(  # what else lies in a run's folder
    ("tokenizer", "logs", "export", "lock", "run.yaml", "events.jsonl", "load.jsonl")
)
# arguments of apply_chat_template that decide the prompt's text beside the template: draftmill sets them itself
_OWN_ARGUMENTS = {
    *("messages", "conversation", "tools", "chat_template", "add_generation_prompt", "continue_final_message"),
    *("tokenize", "tokenizer_kwargs", "padding", "truncation", "max_length", "return_tensors", "return_dict"),
    *("return_assistant_tokens_mask", "sanitize_control_tokens"),
}


def parse_count(value: object) -> int:
    """``10M``, ``250k``, ``1.5M``, ``10_000_000`` or a whole number, as a number of tokens or samples (at least 1)."""
    match = _COUNT.fullmatch(str(value).strip()) if isinstance(value, int | str) and value is not True else None
    count = Decimal(match[1].replace("_", "")) * _SUFFIXES[match[2].lower()] if match else Decimal(0)
    if not 1 <= count <= _MOST or count != int(count):
        raise ValueError("is not a count; write for example 10M, 250k or 10_000_000")
    return int(count)


def _checkpoint(value: object) -> float | None:
    """``1s``, ``500ms``, ``2m``, a number of seconds, or ``off`` (which YAML reads as false)."""
    if value in (False, "off", None):
        return None
    units = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0}
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|)", str(value).strip())
    if value is True or not match or not 0.1 <= (seconds := float(match[1]) * units[match[2]]) <= 3600:
        raise ValueError("is not a duration; write for example 1s, 500ms or off")
    return seconds


def _file_safe(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError("must be letters, digits, '.', '_' or '-', since it names the dataset's folder")
    if name.lower() in _TAKEN_NAMES:
        raise ValueError("is the name of something else in a run's folder; call the dataset otherwise")
    return name


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("must be the name of an environment variable that holds the key, never the key itself")
    return name


def _top_k(value: int) -> int:
    if value < -1:
        raise ValueError("must be -1 (off) or at least 1")
    return value or -1


def check_concurrency(value: object) -> object:
    if value != "auto" and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 100_000):
        raise ValueError("must be auto or a whole number from 1 to 100000")
    return value


def _template(arguments: dict[str, Any]) -> dict[str, Any]:
    if own := sorted(_OWN_ARGUMENTS & arguments.keys()):
        raise ValueError(f"{', '.join(own)} cannot be set here: it is no variable of a chat template")
    return arguments


def _own_sampling(values: dict[str, Any]) -> dict[str, Any]:
    Sampling.model_validate(values)
    return values


Count = Annotated[int, BeforeValidator(parse_count)]
BudgetCounts = Literal["generated", "all"]
Order = Literal["together", "one-by-one"]
Turns = Literal["last", "first", "all"]
History = Literal["served", "recorded"]
Concurrency = Annotated[Literal["auto"] | int, BeforeValidator(check_concurrency)]
Template = Annotated[dict[str, Any], AfterValidator(_template)]


class Sampling(Part):
    """How the target samples. Every value is sent with every request, neutral ones too: servers fill gaps."""

    temperature: Annotated[float, Field(ge=0, le=10)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, AfterValidator(_top_k)] = -1
    min_p: Annotated[float, Field(ge=0, lt=1)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] = 1.0
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0


class Lane(Part):
    """A class of prompts with its own token limit and concurrency, counted over all engines."""

    max_new_tokens: Count = 4096
    concurrency: Concurrency = "auto"


class EngineSpec(Part):
    """One inference server, or the embedded one (``slots``, ``context`` a slot, ``threads`` and ``gguf`` are its)."""

    kind: Literal["auto", "sglang", "vllm", "llamacpp", "embedded"] = "auto"
    url: Annotated[str, AfterValidator(plain_url)] | None = None
    concurrency: Concurrency = "auto"
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = None
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
            # by value, not by what was set: a resolved recipe spells every default out and must read back
            fields = type(self).model_fields
            given = [n for n in ("context", "gguf", "slots", "threads") if getattr(self, n) != fields[n].default]
            if given:
                raise ValueError(f"{', '.join(given)} can be set for kind: embedded only; a server has its own")
        return self


class LongPrompts(Part):
    """Prompts of more than ``over`` tokens go to another lane than the dataset's."""

    over: Count
    lane: str


class Dataset(Part):
    """Where one dataset's prompts come from and how many of them are wanted."""

    name: Annotated[str, AfterValidator(_file_safe)]
    source: str
    format: str = "auto"
    column: str | None = None
    subset: str | None = None
    samples: Count | None = None
    budget: Count | None = None
    budget_counts: BudgetCounts = "generated"
    lane: str = "short"
    long_prompts: LongPrompts | None = None
    turns: Turns = "last"
    history: History = "served"
    n: Annotated[int, Field(ge=1, le=1000)] = 1
    system: str | None = None
    native_tools: bool = False
    sampling: Annotated[dict[str, Any], AfterValidator(_own_sampling)] = Field(default={})
    template: Template = Field(default={})

    @model_validator(mode="after")
    def _fits(self) -> "Dataset":
        if self.history == "recorded" and self.turns != "all":
            raise ValueError("history: recorded goes with turns: all; the last and the first turn have it anyway")
        return self

    def lane_of(self, prompt_tokens: int) -> str:
        """The lane of a prompt of this length."""
        long = self.long_prompts
        return long.lane if long and prompt_tokens > long.over else self.lane


def as_engine(value: object) -> object:
    """A bare word is the embedded engine or a URL."""
    if value == EMBEDDED:
        return {"kind": EMBEDDED}
    return {"url": value} if isinstance(value, str) else value


def _lane(value: object) -> object:
    return {} if value is None else value


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str | dict) else value


class Recipe(Part):
    """One run, as its user wants it."""

    model: Annotated[str, Field(min_length=1)]
    tokenizer: str | None = None
    engines: Annotated[
        list[Annotated[EngineSpec, BeforeValidator(as_engine)]], BeforeValidator(_one_or_many), Field(min_length=1)
    ]
    sampling: Sampling = Sampling()
    template: Template = Field(default={})
    markers: Markers = Markers()
    seed: int = 0
    lanes: Annotated[dict[str, Annotated[Lane, BeforeValidator(_lane)]], Field(min_length=1)] = Field(
        default={"short": Lane()}
    )
    datasets: Annotated[list[Dataset], Field(min_length=1)]
    order: Order = "together"
    engine_tolerance: Annotated[float, Field(gt=0)] = 0.06
    max_error_share: Annotated[float, Field(ge=0, le=1)] = 0.05
    checkpoint_partials: Annotated[float | None, BeforeValidator(_checkpoint)] = 1.0
    trust_remote_code: bool = False
    verify: Verify = Field(default={})

    @model_validator(mode="after")
    def _fits_together(self) -> "Recipe":
        if faults := cross_faults(self.model_dump()):
            raise CrossFaults(faults)
        return self

    def sampling_of(self, dataset: Dataset) -> Sampling:
        """The recipe's sampling with the dataset's own values laid over it."""
        own = {k: v for k, v in dataset.sampling.items() if v is not None}
        return Sampling.model_validate(self.sampling.model_dump() | own)

    def template_of(self, dataset: Dataset) -> dict[str, Any]:
        """The chat template's arguments for a dataset."""
        return self.template | dataset.template

    def dataset(self, name: str) -> Dataset:
        return next(d for d in self.datasets if d.name == name)


Fault = tuple[tuple[int | str, ...], str]  # the place in the file, and what is wrong there


class CrossFaults(ValueError):
    """Faults between fields."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("faults between fields")
        self.faults = faults


def cross_faults(data: Mapping[str, Any]) -> list[Fault]:
    """What is wrong between the fields of a raw recipe; whatever is malformed in itself is passed over."""
    faults: list[Fault] = []
    lanes = data.get("lanes") or {"short": {}}
    names: set[str] = set()
    for i, dataset in enumerate(as_list(data.get("datasets"))):
        if not isinstance(dataset, Mapping):
            continue
        name, lane = dataset.get("name"), dataset.get("lane") or "short"
        if isinstance(name, str):
            if name.lower() in names:  # folders of some systems do not tell a from A
                faults.append((("datasets", i, "name"), f"{name!r} is already taken by an earlier dataset"))
            names.add(name.lower())
        if isinstance(lanes, Mapping) and isinstance(lane, str) and lane not in lanes:
            faults.append((("datasets", i, "lane"), f"no lane {one_of(lane, list(lanes))}"))
        long = dataset.get("long_prompts")
        other = long.get("lane") if isinstance(long, Mapping) else None
        if isinstance(lanes, Mapping) and isinstance(other, str) and other not in lanes:
            faults.append((("datasets", i, "long_prompts", "lane"), f"no lane {one_of(other, list(lanes))}"))
    urls: set[str] = set()
    for i, engine in enumerate(as_list(data.get("engines"))):
        spec = as_engine(engine)
        url = spec.get("url") if isinstance(spec, Mapping) else None
        if isinstance(url, str):
            if server_of(url) in urls:
                faults.append((("engines", i, "url"), "is the same server as an earlier engine"))
            urls.add(server_of(url))
    return faults


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
