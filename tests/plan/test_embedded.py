"""The tokens that a plan names for the embedded engine are those that llama.cpp reports."""

import asyncio
from pathlib import Path

import pytest

from draftmill.capacity.pool import llamacpp_context
from draftmill.engines.embedded import Embedded

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize(("slots", "context"), [(1, 512), (4, 1000), (8, 2048)])
def test_tokens(small_model: Path, slots: int, context: int) -> None:
    async def reported() -> tuple[int | None, int | None]:
        engine = await Embedded.start(small_model, slots=slots, context=context)
        try:
            identity = await engine.identify()
            return identity.kv_tokens, identity.slots
        finally:
            await engine.close()

    tokens, found = asyncio.run(reported())
    assert found == slots
    assert tokens == pytest.approx(llamacpp_context(context, slots), rel=0.01)
