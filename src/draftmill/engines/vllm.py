"""The client of a vLLM server (``/v1/completions`` with ``return_token_ids``), seen on 0.32."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from draftmill.engines import faults, metrics
from draftmill.engines.check import check_request
from draftmill.engines.http import Http
from draftmill.engines.protocol import Identity, Load, OnIds, Reply, Request, Scored
from draftmill.engines.streamed import Growing, Pace
from draftmill.errors import PromptFault, ReplyFault, SetupFault, TransportFault
from draftmill.ids import Apart, Ids
from draftmill.recipe import Sampling
from draftmill.records import Finish

_SEEDS = 2**63  # seeds are signed 64-bit numbers there
_NEUTRAL = Sampling(temperature=1.0)
_MOST_TOP = 20  # log-probabilities of a position, unless the server was started with another --max-logprobs


class _Logprob(msgspec.Struct):
    logprob: float
    rank: int | None = None


class _Choice(msgspec.Struct):
    finish_reason: str | None
    token_ids: msgspec.Raw
    stop_reason: int | str | None = None
    prompt_logprobs: list[dict[str, _Logprob] | None] | None = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _Cached | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage


_REPLY = Apart(_Reply, "token_ids")


class _Answer(NamedTuple):
    ids: Sequence[int]
    finish_reason: str | None
    stop_reason: int | str | None
    usage: _Usage


class _Error(msgspec.Struct):
    code: int = 500
    message: str = ""


class _Piece(msgspec.Struct):
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    stop_reason: int | str | None = None


class _Event(msgspec.Struct):
    choices: list[_Piece] = []
    usage: _Usage | None = None
    error: _Error | None = None


class _Call:
    """A streamed generation under way: ``hear`` takes its events, each with new ids; the last one, without a choice,
    holds the counts. ``task`` reads it."""

    def __init__(self, http: Http, answer: Growing, on_ids: OnIds) -> None:
        self.answer = answer
        self.last: _Piece | None = None
        self.usage: _Usage | None = None
        self.task: asyncio.Task[_Answer] | None = None
        self.aborted = False
        self._http = http
        self._on_ids = on_ids

    def hear(self, said: bytes) -> bool:
        event = self._http.decode(said, _Event)
        if event.error:
            raise faults.of_status("vllm", self._http.name, event.error.code, msgspec.json.encode(event.error))
        for choice in event.choices:
            if choice.token_ids:
                self.answer.add(choice.token_ids)
                self._on_ids(self.answer.ids)
            self.last = choice if choice.finish_reason else self.last
        self.usage = event.usage
        return self.last is not None and self.usage is not None


class _Model(msgspec.Struct):
    id: str
    root: str | None = None
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Version(msgspec.Struct):
    version: str


class _Tokens(msgspec.Struct):
    tokens: list[int]


class VLLM:
    """One vLLM server behind the Engine protocol.

    ``model`` is the served name to ask for; without it the first that the server lists. ``cached_tokens`` is known only
    when the server runs with --enable-prompt-tokens-details.
    """

    def __init__(self, http: Http, model: str | None = None) -> None:
        self._http = http
        self.name = http.name
        self._model = model
        self._kv_total: int | None = None
        self._rate = metrics.Rate()
        self._pace = Pace()
        self._calls: dict[str, _Call] = {}

    async def identify(self) -> Identity:
        model = await self._served()
        version = (await self._http.get("/version", _Version)).version
        text = await self._http.get_text("/metrics")
        self._kv_total = _kv_tokens(text)
        return Identity(
            kind="vllm",
            name=self.name,
            version=version,
            model=model.root or model.id,
            context=model.max_model_len,
            max_prompt=model.max_model_len - 1 if model.max_model_len else None,
            kv_tokens=self._kv_total,
            kv_dtype=metrics.label(text, "vllm:cache_config_info", "cache_dtype"),
        )

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        if reason := check_request(request):
            raise PromptFault(reason)
        sampling = _sampling(request.sampling, request.limit, request.stop_ids, request.seed)
        parameters = sampling | {"request_id": request.tag}
        if on_ids is None:
            answer = self._answer(*await self._complete(request.prompt_ids, parameters))
        else:
            call = _Call(self._http, Growing(self.name, self._pace), on_ids)
            pace = {"stream_interval": self._pace.interval(request.tell_every)}  # older servers send every id at once
            call.task = asyncio.ensure_future(self._stream(call, request.prompt_ids, parameters | pace))
            self._calls[request.tag] = call
            try:
                answer = await call.task
            except asyncio.CancelledError:
                if not call.aborted:
                    raise
                ids = Ids(call.answer.ids)
                return Reply(ids, len(request.prompt_ids), len(ids), Finish.ABORT)
            finally:
                del self._calls[request.tag]
        usage = answer.usage
        finish, matched = self._finish(answer)
        if finish is Finish.LENGTH and usage.completion_tokens < request.limit:
            raise faults.of_limit(self.name, request, usage.completion_tokens)
        cached = usage.prompt_tokens_details
        return Reply(
            output_ids=answer.ids,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            finish=finish,
            matched_stop=matched,
            cached_tokens=cached.cached_tokens if cached else None,
        )

    async def abort(self, tag: str) -> bool:
        """Drop the connection, which cancels the request at the server; what was streamed is the beginning."""
        call = self._calls.get(tag)
        if call is None or call.task is None:
            return False
        call.aborted = True
        call.task.cancel()
        return True

    async def load(self) -> Load:
        text = await self._http.get_text("/metrics")
        totals = metrics.totals(text)
        running = totals.get("vllm:num_requests_running")
        if running is None:
            raise SetupFault(f"{self.name}: the server shows no load", "start it without --disable-log-stats")
        if self._kv_total is None:
            self._kv_total = _kv_tokens(text)
        ranks = text.count("\nvllm:kv_cache_usage_perc{") or 1
        used = totals.get("vllm:kv_cache_usage_perc")  # a share of each rank's cache
        total, generated = self._kv_total, totals.get("vllm:generation_tokens_total")
        return Load(
            running=int(running),
            queued=int(totals.get("vllm:num_requests_waiting", 0)),
            kv_used=None if used is None or total is None else round(used / ranks * total),
            kv_total=total,
            generation_rate=None if generated is None else self._rate.of(generated),
            preemptions=int(totals.get("vllm:num_preemptions_total", 0)),
            work=None if generated is None else generated + totals.get("vllm:prompt_tokens_total", 0.0),
        )

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        top = min(top, _MOST_TOP)
        reply, _ = await self._complete(ids, _sampling(_NEUTRAL, 1, (), None) | {"prompt_logprobs": top})
        given = reply.choices[0].prompt_logprobs or []
        if len(given) != len(ids):
            raise ReplyFault(f"{self.name}: {len(given)} log-probabilities for a prompt of {len(ids)} ids")
        found = [entry.get(str(token)) if entry else None for token, entry in zip(ids, given, strict=True)][start:]
        values = [entry.logprob for entry in found if entry is not None]
        if len(values) != len(found):
            raise ReplyFault(f"{self.name}: the log-probabilities are not those of the ids that were sent")
        return Scored(values, [_likeliest(entry or {}, top) for entry in given[start:]] if top else None)

    async def tokenize(self, text: str) -> list[int] | None:
        body = {"model": (await self._served()).id, "prompt": text, "add_special_tokens": False}
        try:
            return (await self._http.post("/tokenize", body, _Tokens)).tokens
        except faults.NotServed:
            return None

    async def own_stops(self, candidates: list[int]) -> list[int]:
        return []  # it stops at the ids that it is sent, and at the end of sequence of the model's own files

    async def close(self) -> None:
        await self._http.close()

    async def _complete(self, ids: Sequence[int], parameters: dict[str, Any]) -> tuple[_Reply, bytes]:
        if self._model is None:
            self._model = (await self._served()).id
        body = {"model": self._model, "prompt": ids, **parameters}
        reply, apart = await self._http.ask("/v1/completions", body, _REPLY)
        if len(reply.choices) != 1:
            raise ReplyFault(f"{self.name}: {len(reply.choices)} answers where one was asked for")
        return reply, apart

    async def _stream(self, call: "_Call", ids: Sequence[int], parameters: dict[str, Any]) -> _Answer:
        if self._model is None:
            self._model = (await self._served()).id
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        body = {"model": self._model, "prompt": ids, **parameters, **streaming}
        await self._http.stream("/v1/completions", body, call.hear)
        answer = Ids(call.answer.ids)
        if call.last is None or call.usage is None:
            raise TransportFault(f"{self.name}: the answer ended in its middle, after {len(answer)} ids")
        return _Answer(answer, call.last.finish_reason, call.last.stop_reason, call.usage)

    def _answer(self, reply: _Reply, apart: bytes) -> _Answer:
        choice = reply.choices[0]
        ids = self._http.ids(choice.token_ids, apart)
        return _Answer(ids, choice.finish_reason, choice.stop_reason, reply.usage)

    async def _served(self) -> _Model:
        models = (await self._http.get("/v1/models", _Models)).data
        for model in models:
            if self._model in (None, model.id):
                return model
        names = ", ".join(model.id for model in models) or "none"
        raise SetupFault(f"{self.name}: serves no model {self._model!r}", f"it serves {names}: see the engine's model")

    def _finish(self, answer: _Answer) -> tuple[Finish, int | None]:
        reason, matched = answer.finish_reason, answer.stop_reason
        if reason == "abort":
            raise faults.of_abort("vllm", self.name, None, "the request was aborted at the server")
        if reason == "length":
            return Finish.LENGTH, None
        if reason == "stop" and not isinstance(matched, str):
            return Finish.STOP, matched  # None on the model's own end of sequence
        raise ReplyFault(f"{self.name}: the answer ended by {reason!r}, {matched!r}")


def _sampling(sampling: Sampling, limit: int, stop_ids: tuple[int, ...], seed: int | None) -> dict[str, Any]:
    return sampling.__dict__ | {
        "max_tokens": limit,
        "min_tokens": 0,
        "n": 1,
        "seed": None if seed is None else seed % _SEEDS,
        "stop": [],
        "stop_token_ids": list(stop_ids),
        "ignore_eos": False,
        "include_stop_str_in_output": False,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": True,
        "add_special_tokens": False,
        "echo": False,
        "stream": False,
        "return_token_ids": True,
    }


def _likeliest(entry: dict[str, _Logprob], top: int) -> dict[int, float]:
    """Those of rank ``top`` or better: the id that was sent stands there whatever its rank."""
    ranked = sorted((said.rank or 0, int(token), said.logprob) for token, said in entry.items())
    return {token: logprob for rank, token, logprob in ranked if rank <= top}


def _kv_tokens(text: str) -> int | None:
    blocks, size, tokens = (
        metrics.label(text, "vllm:cache_config_info", name)
        for name in (
            "num_gpu_blocks",
            "block_size",
            "kv_cache_size_tokens",
        )  # the last is newer, and right for mixed layers
    )
    engines = text.count("\nvllm:cache_config_info{")  # one line a data-parallel rank
    if tokens and tokens.isdigit():
        return int(tokens) * engines
    return int(blocks) * int(size) * engines if blocks and size and blocks.isdigit() and size.isdigit() else None
