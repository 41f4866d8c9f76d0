"""What ``draftmill plan`` is told of the server that is to be launched, and of the machine where it cannot look."""

import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from draftmill.recipe.count import Count
from draftmill.recipe.part import Part

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_UNITS |= {"TiB": 2**40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKMGT]?i?B)")
_ALIASES = {"auto": "bf16", "bfloat16": "bf16", "fp16": "f16", "float16": "f16", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}
_ALIASES |= {"fp4_e2m1": "fp4", "float32": "f32", "fp32": "f32"}

KV = Literal["f32", "bf16", "f16", "fp8", "fp4", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]


def parse_size(value: object) -> float:
    """``94.04GiB`` or ``449GB`` in bytes; a bare number is refused, since GB and GiB differ by 7 %."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        if isinstance(value, float) and value > 0:  # as a resolved recipe has it
            return value
        raise ValueError("is not a size; write for example 94.04GiB or 449GB")
    return float(match[1]) * _UNITS[match[2]]


def _kv(value: object) -> object:
    return _ALIASES.get(value, value) if isinstance(value, str) else value


def _words(value: object) -> object:
    """A command as one text, as it is typed, or as a list of words. No shell ever sees it."""
    return shlex.split(value) if isinstance(value, str) else value


def _texts(value: object) -> object:
    """YAML reads the values of an environment as numbers and truths."""
    if not isinstance(value, dict):
        return value
    return {str(key): str(each) if isinstance(each, int | float) else each for key, each in value.items()}


def _devices(value: object) -> object:
    """``4,5`` or a list; YAML reads 4 alone as a number."""
    parts = value if isinstance(value, list) else str(value).split(",")
    return [str(part).strip() for part in parts]


def _fraction(value: float) -> float:
    if not 0 < value < 1:
        raise ValueError("is a share of the memory: between 0 and 1")
    return value


Size = Annotated[float, BeforeValidator(parse_size)]
Fraction = Annotated[float, AfterValidator(_fraction)]
Parallel = Annotated[int, Field(ge=1, le=1024)]
Words = Annotated[list[str], BeforeValidator(_words)]
Devices = Annotated[list[Annotated[str, Field(pattern=r"^[A-Za-z0-9:/.-]+$")]], BeforeValidator(_devices)]
Environment = Annotated[dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str], BeforeValidator(_texts)]
Mean = Annotated[float, Field(gt=0)]


class Start(Part):
    """A start of the server that was observed: what it was given, and what its log said."""

    mem_fraction: Fraction
    tokens: Count
    kv: Annotated[KV, BeforeValidator(_kv)] = "bf16"
    left: Size | None = None


class Load(Part):
    """A load that was observed: requests running, and tokens a second of all of them."""

    running: Annotated[float, Field(gt=0)]
    rate: Annotated[float, Field(gt=0)]


class Plan(Part):
    """The server to be planned. Sizes are of one GPU, but for ``host_memory``.

    ``command``, ``options`` and ``environment`` say how it is started where the usual command is not the one.
    """

    engine: Literal["auto", "sglang", "vllm", "llamacpp"] = "auto"
    gpu: str | None = None
    tp: Parallel = 1
    pp: Parallel = 1
    dp: Parallel = 1
    gpu_free: Size | None = None
    host_memory: Size | None = None
    loaded: Size | None = None
    mem_fraction: Fraction | None = None
    kv: Annotated[KV, BeforeValidator(_kv)] = "bf16"
    kv_space: Size | None = None
    hicache: Annotated[float, Field(ge=0)] = 0.0
    context: Count | None = None
    slots: Annotated[int, Field(ge=1)] = 8
    drafter: str | None = None
    algorithm: Literal["EAGLE3", "EAGLE"] | None = None
    command: Words = Field(default=[])
    options: Words = Field(default=[])
    environment: Environment = Field(default={})
    devices: Devices = Field(default=[])
    starts: list[Start] = Field(default=[])
    loads: list[Load] = Field(default=[])
    prompts: dict[str, Mean] = Field(default={})
    answers: dict[str, Mean] = Field(default={})

    @model_validator(mode="after")
    def _fits(self) -> "Plan":
        if self.algorithm and not self.drafter:
            raise ValueError("algorithm goes with a drafter")
        for option in ("--host", "--port"):
            if any(word.partition("=")[0] == option for word in self.options):
                raise ValueError(f"options: {option} is set by draftmill: name the server's URL in `engines`")
        if self.devices and len(self.devices) != self.tp * self.pp * self.dp:
            raise ValueError(f"devices names {len(self.devices)} GPUs; tp * pp * dp is {self.tp * self.pp * self.dp}")
        return self

    def changed(self, values: dict[str, Any]) -> "Plan":
        """The same with other values, checked. Raises pydantic's ValidationError."""
        return Plan.model_validate(self.model_dump() | values)
