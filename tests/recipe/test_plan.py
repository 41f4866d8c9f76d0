"""The part of a recipe that plans a server."""

from pathlib import Path
from typing import Any, get_args

import pytest

from draftmill import recipe as recipes
from draftmill.capacity.kv import DTYPES
from draftmill.errors import RecipeError
from draftmill.recipe import KV, Plan, parse_size

RECIPE = """
model: m
engines: http://127.0.0.1:9
datasets: [{name: a, source: x}]
plan:
"""


@pytest.mark.parametrize(
    ("typed", "bytes"),
    [("449GB", 449e9), ("94.04GiB", 94.04 * 2**30), ("1 TiB", 2**40), ("512MiB", 2**29), (5e9, 5e9)],
)
def test_sizes(typed: object, bytes: float) -> None:
    assert parse_size(typed) == bytes


@pytest.mark.parametrize("typed", ["94", 94, "94G", "GB", "-1GB", "", None, True, "1e3GB", 0.0])
def test_what_is_no_size(typed: object) -> None:
    with pytest.raises(ValueError, match="449GB"):
        parse_size(typed)


def test_every_dtype_of_the_arithmetic() -> None:
    assert set(get_args(KV)) == set(DTYPES)
    assert [Plan(kv=word).kv for word in ("auto", "fp8_e4m3", "float16")] == ["bf16", "fp8", "f16"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lines", "faults"),
    [
        ("  mem_fractoin: 0.9", ["6: plan.mem_fractoin: unknown key; did you mean mem_fraction?"]),
        ("  mem_fraction: 93", ["6: plan.mem_fraction: 93 is a share of the memory: between 0 and 1"]),
        ("  host_memory: 449", ["6: plan.host_memory: 449 is not a size; write for example 94.04GiB or 449GB"]),
        ("  starts: [{mem_fraction: 0.9, token: 5}]", ["did you mean tokens?", "starts[0].tokens: is missing"]),
        ("  answers: {b: 5}", ["6: plan.answers.b: no dataset 'b'; there are a"]),
        ("  algorithm: EAGLE3", ["algorithm goes with a drafter"]),
    ],
)
def test_faults_are_named(tmp_path: Path, lines: str, faults: list[str]) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(RECIPE + lines + "\n")
    with pytest.raises(RecipeError) as found:
        recipes.load(path)
    told = "\n".join(found.value.faults)
    assert all(fault in told for fault in faults), told


def test_a_resolved_plan_reads_back() -> None:
    given: dict[str, Any] = {"host_memory": "449GB", "starts": [{"mem_fraction": 0.9, "tokens": 5, "left": "1GiB"}]}
    plan = Plan.model_validate(given)
    assert Plan.model_validate(plan.model_dump(mode="json")) == plan
    assert plan.changed({"kv": "fp8"}).kv == "fp8"


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("command: .v/bin/python -m vllm", "command", [".v/bin/python", "-m", "vllm"]),
        ("command: [python, -m, 'a b']", "command", ["python", "-m", "a b"]),
        ("options: --dtype float32", "options", ["--dtype", "float32"]),
        ("environment: {HF_HUB_OFFLINE: 1, A: b}", "environment", {"HF_HUB_OFFLINE": "1", "A": "b"}),
        ("{devices: 3}", "devices", ["3"]),
        ("{tp: 2, devices: '4,5'}", "devices", ["4", "5"]),
    ],
)
def test_how_it_is_started(tmp_path: Path, text: str, field: str, value: Any) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(RECIPE + f"  {text}\n")
    plan = recipes.load(path).plan
    assert getattr(plan, field) == value
    assert plan.changed({"context": 1}).model_dump() == plan.model_dump() | {"context": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("devices: '4,5'", "devices names 2 GPUs; tp * pp * dp is 1"),
        ("devices: '$(id)'", "plan.devices"),
        ("environment: {'A B': c}", "plan.environment"),
        ("command: 'python \"'", "plan.command"),
    ],
)
def test_what_cannot_be_started(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(RECIPE + f"  {text}\n")
    with pytest.raises(RecipeError) as caught:
        recipes.load(path)
    assert any(said in fault for fault in caught.value.faults)
