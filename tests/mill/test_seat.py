import asyncio

import pytest

from draftmill.engines.protocol import Identity
from draftmill.mill.forecast import Forecast
from draftmill.mill.growth import Growth
from draftmill.mill.seat import Seat, mismatch
from draftmill.recipe import EngineSpec
from tests.mill.scripted import ScriptedEngine

VLLM = Identity("vllm", "a", model="/data/Kimi-K2", weights="default", vocab_size=100, kv_dtype="auto")


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (Identity("vllm", "b", model="/mnt/models/Kimi-K2/", weights="default", vocab_size=100, kv_dtype="auto"), ""),
        (Identity("vllm", "b"), ""),
        (Identity("llamacpp", "b", model="Kimi.gguf", weights="Q4_1", vocab_size=100), ""),
        (Identity("llamacpp", "b", vocab_size=101), "vocabulary 100 and 101"),
        (Identity("vllm", "b", model="Kimi-K3"), "model 'Kimi-K2' and 'Kimi-K3'"),
        (Identity("vllm", "b", weights="v2"), "weights 'default' and 'v2'"),
        (Identity("vllm", "b", kv_dtype="fp8"), "KV dtype 'auto' and 'fp8'"),
    ],
)
def test_what_may_not_be_mixed(other: Identity, differs: str) -> None:
    assert mismatch(VLLM, other) == differs


@pytest.mark.parametrize(("kind", "cap"), [("llamacpp", 8), ("vllm", 1)])
def test_slots_with_contexts_of_their_own_are_all_used_from_the_start(kind: str, cap: int) -> None:
    identity = Identity(kind, "e", slots=8, context=2048, kv_tokens=8 * 2048)
    seat = Seat(ScriptedEngine(), EngineSpec(url="http://127.0.0.1:1"), identity, lambda *_: None)
    growth = Growth()
    growth.newcomer(Forecast(10_000), 500)  # answers of 10,000 tokens, by the limit; the context cuts them long before

    async def begin() -> None:
        seat.begin(growth)

    asyncio.run(begin())
    assert seat.ceiling == cap
