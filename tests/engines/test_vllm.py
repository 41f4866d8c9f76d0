"""What the vLLM client makes of servers that cannot be run here."""

from typing import Any

import pytest
from aiohttp import web

from draftmill.engines.http import Http
from draftmill.engines.protocol import Load
from draftmill.engines.vllm import VLLM
from draftmill.errors import SetupFault
from tests.engines.test_http import against

TWO_RANKS = """
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="100"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="100"} 1.0
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_running{engine="1"} 4.0
vllm:num_requests_waiting{engine="0"} 1.0
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.25
vllm:num_preemptions_total{engine="0"} 2.0
vllm:num_preemptions_total{engine="1"} 3.0
"""


def calling(metrics: str, method: str, model: str | None = None) -> Any:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "a", "max_model_len": 9}, {"id": "b", "max_model_len": 7}]})
        if request.path == "/version":
            return web.json_response({"version": "0.32"})
        return web.Response(text=metrics)

    async def use(url: str) -> Any:
        engine = VLLM(Http("vllm", url), model)
        try:
            return await getattr(engine, method)()
        finally:
            await engine.close()

    return against(answer, use)


def test_load_is_summed_over_data_parallel_ranks() -> None:
    load = Load(running=7, queued=1, kv_used=1200, kv_total=3200, preemptions=5)
    assert calling(TWO_RANKS, "load") == load


def test_a_server_without_statistics() -> None:
    with pytest.raises(SetupFault) as caught:
        calling("", "load")
    assert "--disable-log-stats" in caught.value.advice


@pytest.mark.parametrize(("model", "context"), [(None, 9), ("a", 9), ("b", 7)])
def test_the_model_that_is_asked_for(model: str | None, context: int) -> None:
    found = calling(TWO_RANKS, "identify", model)
    assert (found.context, found.max_prompt, found.kv_tokens, found.kv_dtype) == (context, context - 1, 3200, "auto")


def test_a_model_that_is_not_served() -> None:
    with pytest.raises(SetupFault) as caught:
        calling(TWO_RANKS, "identify", "c")
    assert "'c'" in caught.value.message and "a, b" in caught.value.advice
