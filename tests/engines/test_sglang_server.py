"""The contract on a real SGLang server; ``scripts/engines/test_engines.sh`` starts it."""

import os

import pytest

from draftmill.engines import connect
from draftmill.recipe import EngineSpec
from tests.engines.contract import Contract, Server

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def server() -> Server:
    url = os.environ["DRAFTMILL_SGLANG_URL"]
    return Server("sglang", lambda: connect(EngineSpec(url=url)))


class TestSGLang(Contract):
    def test_it_says_what_it_was_started_with(self, server: Server) -> None:
        identity = server.run(lambda engine: engine.identify())
        assert (identity.mem_fraction, identity.tp) == (0.3, 1)

    checks_ids = False  # a wrong id would end the server: check_request keeps it away
