"""Whatever is planned, a plan comes out whole, or a message that a person can act on."""

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.capacity.cards import CARDS
from draftmill.capacity.lengths import assumed, fixed
from draftmill.cli.plan import as_json
from draftmill.errors import UsageFault
from draftmill.machine.machine import Machine
from draftmill.plan.demand import Demand
from draftmill.plan.facts import Facts
from draftmill.plan.model import Model
from draftmill.plan.sheet import draw
from draftmill.recipe import Plan
from tests.capacity import models

NAMES = sorted(path.stem for path in Path(models.__file__).parent.glob("*.json"))


def demand(name: str, mean: float, limit: int, needed: int, prompt: float) -> Demand:
    answers = assumed(mean, limit) if mean < limit else fixed(limit)
    longest = round(prompt) + 1
    return Demand(name, "short", limit, needed, needed, True, prompt, "given", longest, "x:1", answers, "given")


demands = st.lists(
    st.builds(
        demand,
        st.sampled_from("abc"),
        st.floats(1, 20_000),
        st.integers(1, 40_000),
        st.integers(0, 10_000),
        st.floats(1, 50_000),
    ),
    max_size=3,
)
plans = st.fixed_dictionaries(
    {
        "engine": st.sampled_from(["auto", "sglang", "vllm", "llamacpp"]),
        "tp": st.sampled_from([1, 2, 8, 16]),
        "pp": st.sampled_from([1, 2]),
        "dp": st.sampled_from([1, 4]),
        "kv": st.sampled_from(["bf16", "fp8", "fp4", "q8_0"]),
        "mem_fraction": st.none() | st.floats(0.01, 0.99),
        "hicache": st.sampled_from([0, 48, 300]),
        "context": st.none() | st.integers(1, 300_000),
        "kv_space": st.none() | st.floats(1.0, 1e12),
        "loads": st.lists(
            st.fixed_dictionaries({"running": st.floats(0.1, 500), "rate": st.floats(0.1, 1e5)}), max_size=3
        ),
    }
)


@settings(max_examples=300)
@given(
    name=st.sampled_from(NAMES),
    plan=plans,
    wanted=demands,
    card=st.sampled_from([None, *CARDS.values()]),
    cap=st.none() | st.integers(1, 500),
    size=st.none() | st.integers(1, 10**12),
    host=st.none() | st.floats(1e9, 4e12),
)
def test_any_plan(
    name: str, plan: dict[str, Any], wanted: list[Demand], card: Any, cap: Any, size: Any, host: Any
) -> None:
    facts = Facts(
        machine=Machine(), model=Model(name, models.shape(name), size, "given"), card=card, cap=cap, host=host
    )
    wished = Plan.model_validate(plan)
    try:
        sheet = draw(wished, facts, wanted)
    except UsageFault as fault:
        assert fault.message and fault.advice
        return
    assert sheet.tokens >= 0 and sheet.running >= 0 and sheet.fits >= 0
    assert sheet.running <= (cap or sheet.running)
    assert sheet.rate is None or sheet.rate > 0
    assert sheet.span is None or 0 <= sheet.span.low <= sheet.span.seconds <= sheet.span.high
    assert len(sheet.launch) == wished.dp
    json.loads(msgspec.json.encode(as_json(sheet)))


def test_what_fits_does_not_wait_for_somebody_to_count_the_prompts() -> None:
    facts = Facts(machine=Machine(), model=Model("m", models.shape("smollm2-135m"), 10**8, "given"))
    plan = Plan(engine="llamacpp", slots=8, context=4096)
    known, unknown = (draw(plan, facts, [demand("a", 300, 1000, needed, 100)]) for needed in (50, 0))
    assert known.fits == unknown.fits > 0 and known.running == unknown.running
