"""The contract on a real vLLM server; ``scripts/engines/test_engines.sh`` starts it."""

import asyncio
import os

import pytest

from draftmill.engines import connect
from draftmill.engines.http import Http
from draftmill.engines.vllm import VLLM
from draftmill.errors import SetupFault
from draftmill.recipe import EngineSpec
from tests.engines.contract import Contract, Server, ask

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def url() -> str:
    return os.environ["DRAFTMILL_VLLM_URL"]


@pytest.fixture(scope="module")
def server(url: str) -> Server:
    return Server("vllm", lambda: connect(EngineSpec(url=url)))


class TestVLLM(Contract):
    def test_a_model_it_does_not_serve(self, url: str) -> None:
        async def use() -> None:
            engine = VLLM(Http("vllm", url), "other")
            try:
                with pytest.raises(SetupFault):
                    await engine.generate(ask())
                with pytest.raises(SetupFault, match="other"):
                    await engine.identify()
            finally:
                await engine.close()

        asyncio.run(use())

    def test_a_seed_is_honoured(self, server: Server) -> None:
        from draftmill.recipe import Sampling

        first, again, other = (
            server.generate(ask(limit=12, sampling=Sampling(), seed=seed)).output_ids for seed in (1, 1, 2)
        )
        assert first == again != other
