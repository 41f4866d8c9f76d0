"""The simulated server over HTTP in real time, in SGLang's wire format, for the client that real servers get."""

import asyncio
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from draftmill.engines.simulated import wire
from draftmill.engines.simulated.engine import log_probability
from draftmill.engines.simulated.host import Gone, Host, Refused
from draftmill.engines.simulated.sequence import Sequence
from draftmill.engines.simulated.trouble import Kind, Trouble

_KEYS = (  # what sampling_params may hold there
    "max_new_tokens stop stop_token_ids stop_regex temperature top_p top_k min_p frequency_penalty presence_penalty "
    "repetition_penalty min_new_tokens n json_schema regex ebnf structural_tag ignore_eos skip_special_tokens "
    "spaces_between_special_tokens no_stop_trim stream_interval logit_bias sampling_seed custom_params beam_width "
    "watermark choice"
)
_SAMPLING = _KEYS.split()
_LONGEST_BODY = 1 << 26


class _Generate(msgspec.Struct):
    input_ids: list[int]
    sampling_params: dict[str, Any] = {}
    rid: str | None = None
    stream: bool = False
    return_logprob: bool = False
    logprob_start_len: int = -1


class _Abort(msgspec.Struct):
    rid: str = ""
    abort_all: bool = False


class _Strike(msgspec.Struct):
    kind: str
    seconds: float = 0.0
    count: int = 0


class HttpServer:
    """``host`` behind a port of 127.0.0.1; ``port`` 0 takes a free one. Beside SGLang's calls there are
    ``POST /trouble {"kind", "seconds", "count"}``, which strikes the host, and ``GET /trouble``, which says how many
    calls each kind has hit."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._offset = time.time() - asyncio.get_running_loop().time()
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> str:
        """Listen. Returns the URL."""
        app = web.Application(client_max_size=_LONGEST_BODY)
        app.router.add_post("/generate", self._generate)
        app.router.add_post("/abort_request", self._abort)
        app.router.add_post("/trouble", self._trouble)
        app.router.add_get("/trouble", self._struck)
        for path in ("/health", "/health_generate"):
            app.router.add_get(path, self._health)
        for path in ("/model_info", "/get_model_info", "/server_info", "/get_server_info", "/v1/loads", "/metrics"):
            app.router.add_get(path, self._says)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, backlog=4096)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        self._host.close()
        if self._runner:
            await self._runner.cleanup()

    # generations

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        try:
            asked = msgspec.json.decode(await request.read(), type=_Generate)
        except msgspec.DecodeError as error:
            return _json(400, wire.refusal(str(error)))
        if unknown := [key for key in asked.sampling_params if key not in _SAMPLING]:
            expected = ", ".join(f"`{key}`" for key in _SAMPLING)
            return _json(400, {"error": f"unknown field `{unknown[0]}`, expected one of {expected}"})
        tag = asked.rid or uuid.uuid4().hex
        limit = asked.sampling_params.get("max_new_tokens", 128)
        try:
            if limit < 1:
                return self._scored(asked, tag)
            work = asyncio.ensure_future(
                self._host.generate(tag, asked.input_ids, limit, asked.sampling_params.get("sampling_seed"))
            )
            try:
                if asked.stream:
                    interval = asked.sampling_params.get("stream_interval") or 1
                    return await self._stream(request, work, tag, interval)
                sequence = await work
                return self._ended(sequence)
            finally:
                work.cancel()
        except Refused as refused:
            return _json(refused.status, refused.body)
        except (Gone, ConnectionError):  # the server breaks off, or the client has
            return _hang_up(request)

    async def _stream(
        self, request: web.Request, work: "asyncio.Future[Sequence]", tag: str, interval: int
    ) -> web.StreamResponse:
        """Chunks of cumulative ids, one every ``interval`` tokens, then the whole reply and the end mark."""
        host, sent = self._host, 0
        await asyncio.wait([work], timeout=0)
        response: web.StreamResponse | None = None
        while True:
            if work.done():
                sequence = work.result()
                response = response or await _event_stream(request)
                await _event(response, wire.reply(sequence, host.spec, sequence.ids(), self._offset))
                await response.write(b"data: [DONE]\n\n")
                return response
            found = host.find(tag)
            ids = host.partial(found) if found else []
            if found and ids and (sent == 0 or len(ids) >= sent + interval):
                response = response or await _event_stream(request)
                await _event(response, wire.reply(found, host.spec, ids, self._offset))
                sent = len(ids)
            pause = host.spec.speed.step(len(host.server.running)) * min(interval, 64)
            await asyncio.wait([work], timeout=max(0.002, pause))

    def _ended(self, sequence: Sequence) -> web.Response:
        return _json(200, wire.reply(sequence, self._host.spec, sequence.ids(), self._offset))

    def _scored(self, asked: _Generate, tag: str) -> web.Response:
        """No new tokens: the log-probabilities of the prompt. It takes no time here."""
        self._host.answer_call(generation=True)
        if reason := wire.too_long(self._host.spec, len(asked.input_ids), 0):
            return _json(400, wire.refusal(reason))
        ids = asked.input_ids[max(0, asked.logprob_start_len) :]
        meta = {
            "id": tag,
            "finish_reason": {"type": "length", "length": 0},
            "prompt_tokens": len(asked.input_ids),
            "completion_tokens": 0,
            "cached_tokens": 0,
        }
        if asked.return_logprob:
            scores = [[None if i == 0 else log_probability(token), token, None] for i, token in enumerate(ids)]
            meta |= {"input_token_logprobs": scores, "output_token_logprobs": []}
        return _json(200, {"text": "", "output_ids": [], "meta_info": meta})

    # control

    async def _abort(self, request: web.Request) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read(), type=_Abort)
        for tag in self._host.tags() if asked.abort_all else [asked.rid]:
            self._host.abort(tag)
        return web.Response()

    async def _trouble(self, request: web.Request) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read(), type=_Strike)
        self._host.strike(Trouble(Kind[asked.kind.upper()], asked.seconds, asked.count))
        return web.Response()

    async def _struck(self, request: web.Request) -> web.StreamResponse:
        return _json(200, {kind.name.lower(): count for kind, count in self._host.struck.items()})

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.Response() if self._host.server.alive else _hang_up(request)

    async def _says(self, request: web.Request) -> web.StreamResponse:
        host = self._host
        try:
            load = host.load()
        except Refused as refused:
            return _json(refused.status, refused.body)
        except Gone:
            return _hang_up(request)
        match request.path:
            case "/model_info" | "/get_model_info":
                return _json(200, wire.model_info(host.spec))
            case "/server_info" | "/get_server_info":
                return _json(200, wire.server_info(host.spec))
            case "/v1/loads":
                when, stamp = time.time(), datetime.now(UTC).isoformat()
                return _json(200, wire.loads(host.spec, load, host.server.counted(host.now()), when, stamp))
            case _:
                return web.Response(text=wire.metrics(host.spec, load, host.server.counted(host.now())))


def _json(status: int, body: wire.Body) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(body), content_type="application/json")


def _hang_up(request: web.Request) -> web.Response:
    """Break the connection, as a server does that dies."""
    if request.transport:
        request.transport.abort()
    return web.Response(status=500)


async def _event_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


async def _event(response: web.StreamResponse, body: wire.Body) -> None:
    await response.write(b"data: " + msgspec.json.encode(body) + b"\n\n")
