"""The shell over aiohttp, and how the clients take a server's faults: against a small server in the test."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiohttp import web

from draftmill.engines import http as shell
from draftmill.engines.http import Http
from draftmill.engines.llamacpp import LlamaCpp
from draftmill.engines.protocol import Engine, Request
from draftmill.engines.sglang import SGLang
from draftmill.engines.vllm import VLLM
from draftmill.errors import (
    CapacityFault,
    DraftmillError,
    EngineError,
    PromptFault,
    ReplyFault,
    SetupFault,
    TransportFault,
)
from draftmill.recipe import Sampling

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

KEY = "sk-very-secret"
REQUEST = Request(prompt_ids=[5, 6, 7], limit=4, sampling=Sampling(), stop_ids=(2,), tag="t")
KINDS = ("sglang", "vllm", "llamacpp")


def client(kind: str, url: str, key: str | None = KEY) -> Engine:
    http = Http(kind, url, key)
    return {"sglang": SGLang, "vllm": lambda http: VLLM(http, "m"), "llamacpp": LlamaCpp}[kind](http)


def against(handler: Handler, use: Callable[[str], Awaitable[T]]) -> T:
    """Run ``use(url)`` while ``handler`` answers every call."""

    async def body() -> T:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            return await use(f"http://127.0.0.1:{port}")
        finally:
            await runner.cleanup()

    return asyncio.run(body())


def failure(kind: str, handler: Handler, request: Request = REQUEST) -> EngineError:
    async def use(url: str) -> EngineError:
        engine = client(kind, url)
        try:
            with pytest.raises(EngineError) as caught:
                await engine.generate(request)
            return caught.value
        finally:
            await engine.close()

    return against(handler, use)


def saying(status: int, body: Any) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=data, content_type="application/json")

    return answer


async def reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'data: {"tokens":[9],"output_ids":[9')
    assert request.transport is not None
    request.transport.close()
    return response


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("handler", "fault"),
    [
        (saying(401, {"error": "no"}), SetupFault),
        (saying(404, {"detail": "Not Found"}), SetupFault),
        (saying(429, {"error": "slow down"}), CapacityFault),
        (saying(500, b"Internal Server Error"), TransportFault),
        (saying(503, {"message": "starting"}), TransportFault),
        (reset, TransportFault),
        (cut_off, TransportFault),
    ],
)
def test_what_goes_wrong_at_any_server(kind: str, handler: Handler, fault: type[EngineError]) -> None:
    found = failure(kind, handler)
    assert isinstance(found, fault)
    assert "127.0.0.1" in found.message


def sglang(finish: Any, ids: Any = (9, 2), **meta: Any) -> Any:
    return {
        "output_ids": ids,
        "meta_info": {"finish_reason": finish, "prompt_tokens": 3, "completion_tokens": 2} | meta,
    }


def vllm(reason: Any, ids: Any = (9, 2), stop: Any = None, tokens: int = 2) -> Any:
    choice = {"finish_reason": reason, "stop_reason": stop, "token_ids": ids}
    return {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": tokens}}


def llamacpp(stop_type: str, ids: Any = (9, 2), tokens: int = 2) -> Any:
    return {"tokens": ids, "stop_type": stop_type, "tokens_predicted": tokens, "tokens_evaluated": 3}


ABORT = {"type": "abort", "message": "Abort in waiting queue"}
FULL = {"type": "abort", "message": "The request queue is full.", "status_code": 503}
BAD_INPUT = {"type": "abort", "message": "Input length (9 tokens) exceeds the maximum allowed length (8 tokens)."}


@pytest.mark.parametrize(
    ("kind", "body", "fault"),
    [
        ("sglang", sglang(ABORT), TransportFault),
        ("sglang", sglang(FULL), CapacityFault),
        ("sglang", sglang(BAD_INPUT), PromptFault),
        ("sglang", sglang({"type": "stop", "matched": "NaN happened"}), ReplyFault),
        ("sglang", sglang({"type": "length", "length": 2}), PromptFault),  # the server lowered the limit of 4
        ("sglang", sglang({"type": "magic"}), ReplyFault),
        ("sglang", sglang({"type": "stop", "matched": 2}, ids=None), ReplyFault),
        ("sglang", b'{"output_ids":[9,', TransportFault),
        ("sglang", b"", TransportFault),
        ("vllm", vllm("abort"), TransportFault),
        ("vllm", vllm("length"), PromptFault),
        ("vllm", vllm("stop", stop="###"), ReplyFault),
        ("vllm", vllm("stop", ids=None), ReplyFault),  # older servers return null ids
        ("vllm", vllm("error"), ReplyFault),
        ("vllm", vllm("stop") | {"choices": []}, ReplyFault),
        ("vllm", b'{"choices":', TransportFault),
        ("llamacpp", llamacpp("word"), ReplyFault),
        ("llamacpp", llamacpp("limit"), PromptFault),
        ("llamacpp", llamacpp("eos", ids="x"), ReplyFault),
        ("llamacpp", {"tokens": [9, 2]}, ReplyFault),
        ("llamacpp", b'{"tokens":[9', TransportFault),
    ],
)
def test_what_goes_wrong_inside_a_200(kind: str, body: Any, fault: type[EngineError]) -> None:
    assert isinstance(failure(kind, saying(200, body)), fault)


@pytest.mark.parametrize(
    ("kind", "body", "matched"),
    [
        ("sglang", sglang({"type": "stop", "matched": 2}), 2),
        ("sglang", sglang({"type": "stop", "matched": [7, 2]}), 2),
        ("sglang", sglang({"type": "stop", "matched": None}, ids=[9, 9], completion_tokens=7), None),
        ("vllm", vllm("stop"), None),
        ("vllm", vllm("stop", stop=2, tokens=7), 2),
        ("llamacpp", llamacpp("eos", tokens=7), None),
    ],
)
def test_wrong_counts_are_passed_on_for_the_check(kind: str, body: Any, matched: int | None) -> None:
    async def use(url: str) -> None:
        engine = client(kind, url)
        reply = await engine.generate(REQUEST)
        assert reply.output_ids[0] == 9 and len(reply.output_ids) == 2
        assert reply.matched_stop == matched
        await engine.close()

    against(saying(200, body), use)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_that_no_server_must_see_is_not_sent(kind: str) -> None:
    async def never(_: web.Request) -> web.Response:
        raise AssertionError("it was sent")

    for ids in ([], [5, -1]):
        request = Request(prompt_ids=ids, limit=4, sampling=Sampling(), stop_ids=(2,), tag="t")
        assert isinstance(failure(kind, never, request), PromptFault)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_shapes_the_answer_is_left_to_the_server(kind: str) -> None:
    async def record(request: web.Request) -> web.Response:
        sent.append((await request.json(), request.headers.get("Authorization")))
        return web.Response(status=500)

    sent: list[tuple[dict[str, Any], str | None]] = []
    failure(kind, record)
    body, header = sent[0]
    params = body.get("sampling_params", body)
    names = dict.fromkeys(Sampling.model_fields)
    if kind == "llamacpp":
        names = {"repeat_penalty" if name == "repetition_penalty" else name: None for name in names}
    else:
        assert params["stop_token_ids"] == [2]
        assert params["skip_special_tokens"] is False and params["n"] == 1
    assert names.keys() <= params.keys()
    assert params["ignore_eos"] is False
    assert 4 in (params.get("max_new_tokens"), params.get("max_tokens"), params.get("n_predict"))
    assert [5, 6, 7] in (body.get("input_ids"), body.get("prompt"))
    assert header == f"Bearer {KEY}"


def test_the_key_is_told_to_nobody() -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(status=401, text=f"bad key {request.headers['Authorization']}")

    for handler in (echo, reset, cut_off, saying(200, {"said": f"{KEY}"})):
        for kind in KINDS:
            found = failure(kind, handler)
            shown = f"{found!r} {found.message} {found.advice} {found.__cause__!r} {found.__dict__}"
            assert KEY not in shown
    assert KEY not in repr(Http("vllm", "http://127.0.0.1:1", KEY))
    with pytest.raises(SetupFault) as caught:
        Http("vllm", "http://127.0.0.1:1", f"{KEY}\nX: y")
    assert KEY not in caught.value.message


def test_a_control_call_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async def use(url: str) -> None:
        http = Http("sglang", url)
        with pytest.raises(TransportFault, match="in time"):
            await http.get_text("/metrics")
        await http.close()

    monkeypatch.setattr(shell, "CONTROL_SECONDS", 0.2)
    against(hang, use)


def test_generations_outlast_the_timeout_of_control_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.json_response(vllm("stop"))

    async def use(url: str) -> None:
        engine = client("vllm", url)
        assert (await engine.generate(REQUEST)).output_ids == [9, 2]
        await engine.close()

    monkeypatch.setattr(shell, "CONTROL_SECONDS", 0.1)
    against(slow, use)


def test_two_thousand_at_once_all_come_back_while_control_calls_pass() -> None:
    """All wait at the server together; a control call made meanwhile is not behind them."""
    waiting = 0
    everyone = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        nonlocal waiting
        if request.path == "/metrics":
            return web.Response(text=f"waiting {waiting}\n")
        waiting += 1
        if waiting == 2000:
            everyone.set()
        await everyone.wait()
        return web.json_response(vllm("stop"))

    async def use(url: str) -> None:
        engine = client("vllm", url)
        work = asyncio.gather(*(engine.generate(REQUEST) for _ in range(2000)))
        assert "waiting" in await engine._http.get_text("/metrics")  # type: ignore[attr-defined]
        assert len(await asyncio.wait_for(work, 60)) == 2000
        await engine.close()

    against(answer, use)


GOOD = {
    "sglang": sglang({"type": "stop", "matched": 2}),
    "vllm": vllm("stop"),
    "llamacpp": llamacpp("eos"),
}


@pytest.mark.parametrize(("kind", "connections"), [("sglang", 1), ("vllm", 1), ("llamacpp", 4)])
def test_connections_are_kept_where_the_server_keeps_them_longer(kind: str, connections: int) -> None:
    seen: set[tuple[str, int]] = set()

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        seen.add(request.transport.get_extra_info("peername"))
        return web.json_response(GOOD[kind])

    async def use(url: str) -> None:
        engine = client(kind, url)
        for _ in range(4):
            assert (await engine.generate(REQUEST)).output_ids == [9, 2]
        assert len(seen) == connections
        await engine.close()

    against(answer, use)


@pytest.mark.parametrize("kind", ["sglang", "vllm"])
@pytest.mark.parametrize("server_keeps", [0.05, 0.15, 60.0])
def test_no_request_meets_the_end_of_a_kept_connection(
    kind: str, server_keeps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends it first, the next call opens another one; idle ones are not used once their time is over."""
    seen: list[tuple[str, int]] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        seen.append(request.transport.get_extra_info("peername"))
        asyncio.get_running_loop().call_later(server_keeps, request.transport.close)
        return web.json_response(GOOD[kind])

    async def use(url: str) -> None:
        engine = client(kind, url)
        for _ in range(3):
            assert (await engine.generate(REQUEST)).output_ids == [9, 2]
            await asyncio.sleep(0.3)
        assert len(set(seen)) == 3
        await engine.close()

    monkeypatch.setitem(shell.KEPT_SECONDS, kind, 0.1)
    against(answer, use)


def test_nobody_there() -> None:
    async def use() -> DraftmillError:
        engine = client("vllm", "http://127.0.0.1:9")
        with pytest.raises(TransportFault, match="no server answers at") as caught:
            await engine.generate(REQUEST)
        await engine.close()
        return caught.value

    assert asyncio.run(use()).advice


@pytest.mark.parametrize("kind", KINDS)
def test_who_still_holds_a_closed_engine_opens_no_connection_again(kind: str) -> None:
    calls = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.json_response({})

    async def use(url: str) -> None:
        engine = client(kind, url)
        await engine.close()
        for call in (engine.identify(), engine.generate(REQUEST), engine.score([1, 2], 1)):
            with pytest.raises(TransportFault, match="is not used any more"):
                await call
        await engine.close()

    against(handler, use)
    assert calls == 0
