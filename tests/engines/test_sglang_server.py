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
    checks_ids = False  # a wrong id would end the server: check_request keeps it away
