"""The simulated server over HTTP: SGLang's wire format, and the real client against it.

``sglang_0_5_23.json`` holds what a real SGLang 0.5.23 answered (SmolLM2 on a CPU, two requests at once and two in its
queue; the server's own settings and metrics are an excerpt).
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from draftmill.engines import connect
from draftmill.engines.check import check_reply
from draftmill.engines.protocol import Request
from draftmill.engines.sglang import SGLang
from draftmill.engines.simulated import Answers, Host, Lengths, ServerSpec, Speed
from draftmill.engines.simulated.http import HttpServer
from draftmill.errors import CapacityFault, EngineError, PromptFault, SetupFault, TransportFault
from draftmill.recipe import EngineSpec, Sampling
from draftmill.records import Finish

T = TypeVar("T")

RECORDED = json.loads((Path(__file__).parent / "sglang_0_5_23.json").read_text())
SPEC = ServerSpec(
    kv_tokens=32_768,
    speed=Speed(0.002, 0.0),
    prefill_rate=1e6,
    context=2048,
    max_running=2,
    max_queued=2,
    prefix_cache=True,
    model="model",
)
PROMPT = [20, 21, 22, 23]
# what only a real server has: timings of its own stages, and what other features say
ONLY_REAL = {
    "storage_prefetch_wait",
    "storage_staging_wait",
    "forward_entry_time",
    "prefill_finished_time",
    "api_server_dispatch_finish_ts",
    "response_sent_to_client_ts",
    "has_image_understanding",
    "has_audio_understanding",
    "reasoning_parser",
    "tool_call_parser",
    "disaggregation_mode",
    "num_waiting_uncached_tokens",
    "num_total_tokens",
    "num_active_tokens",
    "num_prealloc_ready_tokens",
    "total_prefill_uncached_tokens",
    "total_prefill_busy_us",
    "decode_moments",
}


def serving(
    use: Callable[[HttpServer, str], Awaitable[T]], spec: ServerSpec = SPEC, lengths: Lengths | None = None
) -> T:
    async def body() -> T:
        server = HttpServer(Host(spec, Answers(lengths or Lengths(30, 0))))
        url = await server.start()
        try:
            return await asyncio.wait_for(use(server, url), 20)
        finally:
            await server.close()

    return asyncio.run(body())


async def call(url: str, path: str, body: Any = None) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        sent = {"data": json.dumps(body)} if body is not None else {}
        async with session.request("POST" if body is not None else "GET", url + path, **sent) as response:
            return response.status, await response.text()


def asked(path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
    async def use(server: HttpServer, url: str) -> tuple[int, str]:
        return await call(url, path, body)

    status, text = serving(use, **options)
    try:
        return status, json.loads(text)
    except json.JSONDecodeError:
        return status, text


def generation(limit: int, ids: list[int] | None = None, **more: Any) -> dict[str, Any]:
    sampling = {"max_new_tokens": limit, "stop_token_ids": [2]} | more.pop("sampling", {})
    return {"input_ids": PROMPT if ids is None else ids, "sampling_params": sampling} | more


def shape(value: Any) -> Any:
    """The types of a JSON value, key for key, without what only a real server has."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items() if key not in ONLY_REAL}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def same_shape(said: Any, recorded: Any) -> None:
    assert shape(said) == shape(recorded)


def test_an_answer_that_stops() -> None:
    status, said = asked("/generate", generation(60, rid="a"))
    assert status == 200
    same_shape(said, RECORDED["stop"]["body"])
    assert said["meta_info"]["finish_reason"] == {"type": "stop", "matched": 2}
    assert (said["meta_info"]["id"], len(said["output_ids"]), said["meta_info"]["prompt_tokens"]) == ("a", 30, 4)


def test_an_answer_at_its_limit() -> None:
    status, said = asked("/generate", generation(3))
    assert status == 200
    same_shape(said, RECORDED["length"]["body"])
    assert said["meta_info"]["finish_reason"] == {"type": "length", "length": 3}


def test_the_default_limit_is_128() -> None:
    body = {"input_ids": PROMPT, "sampling_params": {}}
    assert len(asked("/generate", body, lengths=Lengths(500, 0))[1]["output_ids"]) == 128


@pytest.mark.parametrize("abort_all", [False, True])
def test_an_answer_that_is_aborted(abort_all: bool) -> None:
    async def use(server: HttpServer, url: str) -> tuple[tuple[int, str], tuple[int, str]]:
        work = asyncio.ensure_future(call(url, "/generate", generation(900, rid="d")))
        await asyncio.sleep(0.2)
        abort = await call(url, "/abort_request", {"abort_all": True} if abort_all else {"rid": "d"})
        return await work, abort

    (status, text), abort = serving(use, lengths=Lengths(900, 0))
    said = json.loads(text)
    same_shape(said, RECORDED["aborted"]["body"])
    assert (status, said["meta_info"]["finish_reason"]) == (
        200,
        RECORDED["aborted"]["body"]["meta_info"]["finish_reason"],
    )
    assert 0 < len(said["output_ids"]) == said["meta_info"]["completion_tokens"] < 900
    assert abort == (200, RECORDED["abort_request"]["body"])


def test_an_abort_of_nothing() -> None:
    assert asked("/abort_request", {"rid": "nope"}) == (200, "")


def events(text: str) -> list[Any]:
    found = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [event if event == "[DONE]" else json.loads(event) for event in found]


def test_a_stream() -> None:
    async def use(server: HttpServer, url: str) -> str:
        return (await call(url, "/generate", generation(60, stream=True, sampling={"stream_interval": 4})))[1]

    said, recorded = events(serving(use)), RECORDED["stream"]["events"]
    assert said[-1] == recorded[-1] == "[DONE]"
    assert len(said) > 3
    same_shape(said[0], recorded[0])
    same_shape(said[-2] | {"meta_info": said[-2]["meta_info"] | {"finish_reason": None}},
               recorded[-2] | {"meta_info": recorded[-2]["meta_info"] | {"finish_reason": None}})  # fmt: skip
    chunks = [event["output_ids"] for event in said[:-1]]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(chunks))
    assert all(len(later) - len(earlier) >= 4 for earlier, later in pairwise(chunks[:-1]))
    assert (len(chunks[-1]), chunks[-1][-1]) == (30, 2)


def test_a_stream_that_is_aborted() -> None:
    async def use(server: HttpServer, url: str) -> str:
        body = generation(900, rid="e", stream=True, sampling={"stream_interval": 8})
        work = asyncio.ensure_future(call(url, "/generate", body))
        await asyncio.sleep(0.2)
        await call(url, "/abort_request", {"rid": "e"})
        return (await work)[1]

    said = events(serving(use, lengths=Lengths(900, 0)))
    same_shape(said[-2], RECORDED["aborted_stream"]["events"][-2])
    assert said[-2]["meta_info"]["finish_reason"]["type"] == "abort"


def test_a_client_that_leaves_frees_the_server() -> None:
    async def use(server: HttpServer, url: str) -> None:
        for stream in (False, True):
            work = asyncio.ensure_future(call(url, "/generate", generation(900, stream=stream)))
            await asyncio.sleep(0.1)
            assert server._host.load().running == 1
            work.cancel()
            await asyncio.sleep(0.2)
            assert server._host.load().running == 0

    serving(use, lengths=Lengths(900, 0))


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("too_long", generation(3, [5] * 3000)),
        ("too_much", generation(300, [5] * 2000)),
        ("near", generation(3, [5] * 2042)),
        ("empty", generation(3, [])),
        ("unknown_key", generation(3, sampling={"foo": 1})),
    ],
)
def test_what_is_refused_in_its_own_words(name: str, body: Any) -> None:
    status, said = asked("/generate", body)
    assert (status, said) == (RECORDED[name]["status"], RECORDED[name]["body"])


def test_a_full_queue_in_its_own_words() -> None:
    async def use(server: HttpServer, url: str) -> list[tuple[int, str]]:
        return await asyncio.gather(*(call(url, "/generate", generation(100)) for _ in range(6)))

    replies = serving(use, lengths=Lengths(100, 0))
    refused = [json.loads(text) for status, text in replies if status == 503]
    assert refused == [RECORDED["queue_full"]["body"]] * 3  # one runs, two wait: as the real server did


@pytest.mark.parametrize("path", ["/model_info", "/server_info"])
def test_what_it_is(path: str) -> None:
    status, said = asked(path)
    recorded = RECORDED[path.strip("/")]["body"]
    assert status == 200
    said |= {"max_queued_requests": 2} if path == "/server_info" else {}
    same_shape(said, recorded)
    same = {"context_length", "max_req_input_len", "max_total_num_tokens", "max_running_requests", "version"}
    assert {key: said.get(key) for key in same} == {key: recorded.get(key) for key in same}


def test_its_load_and_metrics() -> None:
    async def use(server: HttpServer, url: str) -> tuple[Any, str]:
        work = [asyncio.ensure_future(call(url, "/generate", generation(400, rid=str(n)))) for n in range(3)]
        await asyncio.sleep(0.3)
        await call(url, "/abort_request", {"rid": "0"})
        await asyncio.sleep(0.1)
        loads = json.loads((await call(url, "/v1/loads?include=core"))[1])
        metrics = (await call(url, "/metrics"))[1]
        await call(url, "/abort_request", {"abort_all": True})
        await asyncio.gather(*work)
        return loads, metrics

    loads, metrics = serving(use, lengths=Lengths(900, 0))
    same_shape(loads, RECORDED["loads"]["body"])
    (rank,) = loads["loads"]
    assert (rank["num_running_reqs"], rank["num_waiting_reqs"]) == (2, 0)
    assert rank["gen_throughput"] > 0 and rank["num_used_tokens"] > 8
    names = [line.split("{")[0] for line in RECORDED["metrics"]["lines"] if not line.startswith("#")]
    assert [name for name in names if f"{name}{{" not in metrics] == []
    assert "num_retracted_requests_total" not in metrics  # it appears when it first counts


def test_health() -> None:
    assert asked("/health") == (200, "")


def test_it_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "draftmill.engines.simulated", "--port", "0", "--base", "0.001", "--mean", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().split()[-1]
            status, text = asyncio.run(call(url, "/generate", generation(500)))
        finally:
            process.terminate()
    assert (status, json.loads(text)["meta_info"]["finish_reason"]["type"]) == (200, "stop")


# the client of real servers


def with_client(
    use: Callable[[SGLang, HttpServer], Awaitable[T]], spec: ServerSpec = SPEC, lengths: Lengths | None = None
) -> T:
    async def body(server: HttpServer, url: str) -> T:
        engine = await connect(EngineSpec(url=url))
        assert isinstance(engine, SGLang)  # detected
        try:
            return await use(engine, server)
        finally:
            await engine.close()

    return serving(body, spec, lengths)


def request(prompt: list[int] = PROMPT, limit: int = 60, tag: str = "t") -> Request:
    return Request(prompt, limit, Sampling(), (2,), tag, seed=5)


def test_the_client_gets_checked_answers() -> None:
    async def use(engine: SGLang, server: HttpServer) -> None:
        for limit, finish in ((60, Finish.STOP), (7, Finish.LENGTH), (30, Finish.STOP)):
            asked = request(limit=limit)
            reply = await engine.generate(asked)
            assert reply.finish is finish
            assert check_reply(asked, reply, 1000) is None
            assert server._host.server.answers.check(PROMPT, reply.output_ids) is None

    with_client(use)


def test_the_client_learns_what_it_is_and_does() -> None:
    async def use(engine: SGLang, server: HttpServer) -> None:
        identity = await engine.identify()
        assert (identity.kind, identity.model, identity.kv_tokens, identity.slots) == ("sglang", "model", 32_768, 2)
        assert (identity.context, identity.max_prompt) == (2046, 2041)
        work = [asyncio.ensure_future(engine.generate(request(limit=400, tag=str(n)))) for n in range(3)]
        await asyncio.sleep(0.2)
        load = await engine.load()
        assert (load.running, load.queued, load.kv_total, load.preemptions) == (2, 1, 32_768, 0)
        assert load.kv_used and load.generation_rate
        assert await engine.tokenize("hi") is None
        assert len((await engine.score([20, 21, 22, 23], 2)).logprobs) == 2
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    with_client(use, lengths=Lengths(900, 0))


def test_the_client_at_the_edge_of_the_context() -> None:
    async def use(engine: SGLang, server: HttpServer) -> None:
        long = [20 + n % 7 for n in range(2041)]
        assert len((await engine.generate(request(long, 5))).output_ids) == 5
        with pytest.raises(PromptFault):
            await engine.generate(request(long, 6))  # it stops one earlier without a word
        with pytest.raises(PromptFault):
            await engine.generate(request([*long, 20], 1))

    with_client(use)


@pytest.mark.parametrize(
    ("trouble", "fault"),
    [
        ({"kind": "denied", "seconds": 60}, SetupFault),
        ({"kind": "error", "seconds": 60}, TransportFault),
        ({"kind": "full", "seconds": 60}, CapacityFault),
        ({"kind": "death", "seconds": 60}, TransportFault),
    ],
)
def test_the_client_in_trouble(trouble: dict[str, Any], fault: type[EngineError]) -> None:
    async def use(engine: SGLang, server: HttpServer) -> None:
        await call(engine._http.url, "/trouble", trouble)
        with pytest.raises(fault):
            await engine.generate(request())
        struck = json.loads((await call(engine._http.url, "/trouble"))[1])
        assert struck == {trouble["kind"]: 0 if trouble["kind"] == "death" else 1}  # nothing was in flight to be lost

    with_client(use)


@pytest.mark.parametrize("kind", ["reset", "abort", "death"])
def test_the_client_when_trouble_comes_in_between(kind: str) -> None:
    async def use(engine: SGLang, server: HttpServer) -> None:
        work = asyncio.ensure_future(engine.generate(request(limit=900)))
        await asyncio.sleep(0.2)
        await call(engine._http.url, "/trouble", {"kind": kind, "seconds": 0.3})
        with pytest.raises(TransportFault):
            await work
        assert server._host.struck.total() == 1
        await asyncio.sleep(0.4)
        assert (await engine.generate(request(limit=5, tag="u"))).completion_tokens == 5

    with_client(use, lengths=Lengths(900, 0))
