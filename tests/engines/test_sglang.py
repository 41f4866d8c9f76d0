"""What the SGLang client makes of servers that cannot be run here: older ones, and ones started in other ways."""

from collections.abc import Mapping
from typing import Any

import pytest

from draftmill.engines.http import Http
from draftmill.engines.protocol import Identity, Load
from draftmill.engines.sglang import SGLang
from draftmill.errors import EngineError, SetupFault
from tests.engines.test_detect import serving
from tests.engines.test_http import against

MODEL = {"model_path": "m", "weight_version": "w", "preferred_sampling_params": None}
SERVER = {
    "version": "0.5",
    "context_length": 2048,
    "max_req_input_len": 2042,
    "max_total_num_tokens": 32768,
    "kv_cache_dtype": "fp8_e5m2",
    "max_running_requests": 16,
    "internal_states": [{}],
}
RANK = {"num_running_reqs": 2, "num_waiting_reqs": 3, "num_used_tokens": 100, "max_total_num_tokens": 1000}


def calling(paths: Mapping[str, Any], method: str, *args: Any) -> Any:
    async def use(url: str) -> Any:
        engine = SGLang(Http("sglang", url))
        try:
            return await getattr(engine, method)(*args)
        finally:
            await engine.close()

    return against(serving(paths), use)


@pytest.mark.parametrize("names", [("/model_info", "/server_info"), ("/get_model_info", "/get_server_info")])
def test_identity_under_both_names(names: tuple[str, str]) -> None:
    found: Identity = calling(dict(zip(names, (MODEL, SERVER), strict=True)), "identify")
    assert (found.model, found.weights, found.version) == ("m", "w", "0.5")
    assert (found.context, found.max_prompt) == (2046, 2041)  # as a real server of this bound refused and cut
    assert (found.kv_tokens, found.kv_dtype, found.slots) == (32768, "fp8_e5m2", 16)


def test_identity_of_a_server_that_says_little() -> None:
    found: Identity = calling({"/model_info": {"model_path": "m"}, "/server_info": {"context_length": 9}}, "identify")
    assert (found.context, found.max_prompt, found.kv_tokens) == (9, None, None)


@pytest.mark.parametrize(
    ("model", "server", "words"),
    [
        ({"preferred_sampling_params": {"temperature": 0.1}}, {}, "preferred sampling"),
        ({}, {"allow_auto_truncate": True}, "cuts prompts"),
    ],
)
def test_a_server_that_would_change_what_is_asked(model: Any, server: Any, words: str) -> None:
    with pytest.raises(SetupFault, match=words):
        calling({"/model_info": MODEL | model, "/server_info": SERVER | server}, "identify")


def test_what_a_server_says_of_itself_is_not_quoted() -> None:
    with pytest.raises(EngineError) as caught:
        calling({"/model_info": MODEL, "/server_info": {"admin_api_key": "sk-secret", "version": 7}}, "identify")
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("paths", "load"),
    [
        (
            {"/v1/loads": {"loads": [RANK, RANK | {"gen_throughput": 5.0}]}},
            Load(running=4, queued=6, kv_used=200, kv_total=2000, generation_rate=5.0),
        ),
        (
            {"/get_load": [{"num_reqs": 5, "num_waiting_reqs": 3, "num_tokens": 7}] * 2},
            Load(running=4, queued=6, kv_used=14),
        ),
        ({"/get_load": {"num_reqs": 5, "num_waiting_reqs": 3}}, Load(running=2, queued=3, kv_used=0)),
    ],
)
def test_load(paths: Mapping[str, Any], load: Load) -> None:
    assert calling(paths, "load") == load


def test_no_tokenizer_call() -> None:
    assert calling({}, "tokenize", "hi") is None
