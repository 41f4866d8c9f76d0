import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from draftmill.engines import connect
from draftmill.engines.detect import detect
from draftmill.engines.http import Http
from draftmill.engines.llamacpp import LlamaCpp
from draftmill.engines.sglang import SGLang
from draftmill.engines.vllm import VLLM
from draftmill.errors import EngineError, SetupFault, TransportFault
from draftmill.recipe import EngineSpec
from tests.engines.test_http import Handler, against

SGLANG = {"/model_info": {"model_path": "m"}, "/v1/models": {"data": []}}
OLD_SGLANG = {"/get_model_info": {"model_path": "m"}, "/v1/models": {"data": []}}
VLLM_SERVER = {"/version": {"version": "0.32"}, "/v1/models": {"data": []}}
LLAMA = {"/props": {"default_generation_settings": {"n_ctx": 512}}, "/v1/models": {"data": []}}


def serving(paths: Mapping[str, Any], other: int = 404) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        said = paths.get(request.path)
        if isinstance(said, int):
            return web.Response(status=said)
        return web.Response(status=other) if said is None else web.json_response(said)

    return answer


async def _detect(url: str, env: str | None = None) -> str:
    http = Http("auto", url)
    try:
        return await detect(http, env)
    finally:
        await http.close()


@pytest.mark.parametrize(
    ("paths", "kind"),
    [(SGLANG, "sglang"), (OLD_SGLANG, "sglang"), (VLLM_SERVER, "vllm"), (LLAMA, "llamacpp")],
)
def test_known(paths: Mapping[str, Any], kind: str) -> None:
    assert against(serving(paths), _detect) == kind


@pytest.mark.parametrize(
    ("handler", "fault", "words"),
    [
        (serving({}), SetupFault, "neither SGLang, vLLM nor llama.cpp"),
        (serving({"/version": {"version": "1"}}), SetupFault, "neither"),
        (
            serving({path: {"hello": 1} for path in ("/model_info", "/props", "/version", "/v1/models")}),
            SetupFault,
            "neither",
        ),
        (serving({path: [1] for path in ("/model_info", "/props")}), SetupFault, "neither"),
        (serving({}, 401), SetupFault, "wants an API key"),
        (serving(VLLM_SERVER | {"/v1/models": 401}), SetupFault, "wants an API key"),
        (serving({}, 503), TransportFault, "503"),
        (serving({}, 502), TransportFault, "502"),
    ],
)
def test_unknown(handler: Handler, fault: type[EngineError], words: str) -> None:
    async def use(url: str) -> None:
        with pytest.raises(fault, match=words):
            await _detect(url)

    against(handler, use)


def test_a_refused_key_names_its_variable() -> None:
    async def use(url: str) -> None:
        with pytest.raises(SetupFault, match=r"\$MY_KEY is refused"):
            await _detect(url, "MY_KEY")

    against(serving({}, 401), use)


def test_nobody_there() -> None:
    with pytest.raises(TransportFault, match=r"no server answers at http://127\.0\.0\.1:9"):
        asyncio.run(_detect("http://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("paths", "client"),
    [(SGLANG, SGLang), (VLLM_SERVER, VLLM), (LLAMA, LlamaCpp)],
)
def test_connect_gives_the_client_of_what_answers(paths: Mapping[str, Any], client: type) -> None:
    async def use(url: str) -> None:
        engine = await connect(EngineSpec(url=url))
        assert type(engine) is client and engine.name == url
        await engine.close()

    against(serving(paths), use)


def test_connect_believes_a_kind_that_is_given() -> None:
    async def use() -> None:
        engine = await connect(EngineSpec(url="http://127.0.0.1:9", kind="vllm"))
        assert type(engine) is VLLM
        await engine.close()

    asyncio.run(use())


def test_connect_names_the_variable_of_a_key_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISSING_KEY", raising=False)
    with pytest.raises(SetupFault, match="MISSING_KEY"):
        asyncio.run(connect(EngineSpec(url="http://127.0.0.1:9", api_key_env="MISSING_KEY")))


def test_connect_needs_a_file_for_the_embedded_engine() -> None:
    with pytest.raises(SetupFault, match="gguf"):
        asyncio.run(connect(EngineSpec(kind="embedded")))
