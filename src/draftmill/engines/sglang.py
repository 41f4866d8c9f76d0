"""The client of an SGLang server (``/generate``), seen on 0.5.23; older names of the control calls are tried too."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from draftmill.engines import faults, metrics
from draftmill.engines.check import check_request
from draftmill.engines.http import Http
from draftmill.engines.protocol import Identity, Load, OnIds, Reply, Request, Scored
from draftmill.engines.streamed import Growing, Pace, Repeating
from draftmill.errors import EngineError, PromptFault, ReplyFault, SetupFault, TransportFault
from draftmill.ids import Apart, Ids
from draftmill.recipe import Sampling
from draftmill.records import Finish

T = TypeVar("T")

_SEEDS = 2**63  # seeds are signed 64-bit numbers there
_NEUTRAL = Sampling(temperature=1.0)  # SGLang may scale log-probabilities by the temperature


class _Finish(msgspec.Struct):
    type: str
    matched: int | str | list[int] | None = None
    message: str | None = None
    status_code: int | None = None


class _Meta(msgspec.Struct):
    finish_reason: _Finish | None  # None in the events of a stream before the last
    completion_tokens: int
    prompt_tokens: int = -1  # left out of an abort in the queue
    cached_tokens: int | None = None
    input_token_logprobs: list[tuple[float | None, int, str | None]] | None = None
    input_top_logprobs: list[list[tuple[float, int, str | None]] | None] | None = None


class _Reply(msgspec.Struct):
    meta_info: _Meta
    output_ids: msgspec.Raw = msgspec.Raw(b"[]")


_REPLY = Apart(_Reply, "output_ids")


class _Error(msgspec.Struct):
    code: int = 500
    message: str = ""


class _Event(msgspec.Struct):
    meta_info: _Meta | None = None
    output_ids: list[int] = []
    error: _Error | None = None


class _Stream:
    """A streamed answer: ``hear`` takes its events, ``last`` is what the last one says of it.

    Each event holds all ids so far, of which only the new ones are read, but for the last event. A server that was
    started with incremental streaming sends the new ids only, and its count tells.
    """

    def __init__(self, http: Http, answer: Growing, on_ids: OnIds) -> None:
        self.answer = answer
        self.last: _Meta | None = None
        self._http = http
        self._on_ids = on_ids
        self._repeating = Repeating()

    def hear(self, said: bytes) -> bool:
        rest = self._repeating.rest(said)
        if rest is None or not self._heard_rest(self._http.decode(rest, _Event)):
            self._hear_whole(self._http.decode(said, _Event))
        return self.last is not None

    def _heard_rest(self, event: _Event) -> bool:
        """Take in an event that was cut to its new ids; False where it has to be read whole."""
        meta, new = event.meta_info, event.output_ids
        if meta is None or meta.finish_reason or meta.completion_tokens != len(self.answer.ids) + len(new):
            return False
        self.answer.add(new)
        self._on_ids(self.answer.ids)
        return True

    def _hear_whole(self, event: _Event) -> None:
        meta, ids = event.meta_info, event.output_ids
        if event.error:
            raise faults.of_status("sglang", self._http.name, event.error.code, msgspec.json.encode(event.error))
        if meta is None:
            return
        if meta.completion_tokens == len(ids):
            self.answer.replace(ids)
        elif meta.completion_tokens != len(self.answer.ids):  # else nothing is new: an abort repeats the last id
            self.answer.add(ids)
        self._on_ids(self.answer.ids)
        self.last = meta if meta.finish_reason else None


class _ModelInfo(msgspec.Struct):
    model_path: str
    weight_version: str | None = None
    preferred_sampling_params: dict[str, Any] | str | None = None


class _ServerInfo(msgspec.Struct):
    version: str | None = None
    context_length: int | None = None
    max_req_input_len: int | None = None
    max_total_num_tokens: int | None = None
    max_running_requests: int | None = None
    kv_cache_dtype: str | None = None
    mem_fraction_static: float | None = None
    tp_size: int | None = None
    allow_auto_truncate: bool = False


class _Rank(msgspec.Struct):
    num_running_reqs: int
    num_waiting_reqs: int
    num_used_tokens: int | None = None
    max_total_num_tokens: int | None = None
    gen_throughput: float | None = None


class _OldRank(msgspec.Struct):
    num_reqs: int
    num_waiting_reqs: int
    num_tokens: int | None = None


class _Loads(msgspec.Struct):
    loads: list[_Rank]


class _Tokens(msgspec.Struct):
    tokens: list[int]


class SGLang:
    """One SGLang server behind the Engine protocol. Seeds are sent; only deterministic inference honours them."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.name = http.name
        self._has_metrics = True
        self._has_loads = True
        self._streams = True
        self._pace = Pace()
        self._aborted: set[str] = set()

    async def identify(self) -> Identity:
        """``max_req_input_len`` is the server's own bound on prompts: it refuses one of that very length, and cuts
        prompt and answer together to that length + 4 without a word (scheduler and tp_worker of SGLang)."""
        model = await self._either("/model_info", "/get_model_info", _ModelInfo)
        server = await self._either("/server_info", "/get_server_info", _ServerInfo)
        if model.preferred_sampling_params:
            raise SetupFault(
                f"{self.name}: the server was started with preferred sampling parameters, which shape every answer",
                "start it without --preferred-sampling-params",
            )
        if server.allow_auto_truncate:
            raise SetupFault(
                f"{self.name}: the server cuts prompts that are too long without a word",
                "start it without --allow-auto-truncate",
            )
        bound = server.max_req_input_len
        return Identity(
            kind="sglang",
            name=self.name,
            version=server.version,
            model=model.model_path,
            weights=model.weight_version,
            context=bound + 4 if bound else server.context_length,
            max_prompt=bound - 1 if bound else None,
            slots=server.max_running_requests,
            kv_tokens=server.max_total_num_tokens,
            kv_dtype=server.kv_cache_dtype,
            mem_fraction=server.mem_fraction_static,
            tp=server.tp_size,
        )

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        if reason := check_request(request):
            raise PromptFault(reason)
        body = {
            "input_ids": request.prompt_ids,
            "sampling_params": _sampling(request.sampling, request.limit, request.stop_ids, request.seed),
            "rid": request.tag,
            "stream": False,
        }
        try:
            meta, ids = await self._answer(body, request.tell_every, on_ids)
        except EngineError:
            if request.tag in self._aborted:  # given up while it waited: there is no beginning
                return Reply([], len(request.prompt_ids), 0, Finish.ABORT)
            raise
        finally:
            aborted = request.tag in self._aborted
            self._aborted.discard(request.tag)
        if aborted and meta.finish_reason and meta.finish_reason.type == "abort":
            return Reply(ids, len(request.prompt_ids), meta.completion_tokens, Finish.ABORT)
        finish, matched = self._finish(meta.finish_reason)
        if finish is Finish.LENGTH and meta.completion_tokens < request.limit:
            raise faults.of_limit(self.name, request, meta.completion_tokens)
        return Reply(
            output_ids=ids,
            prompt_tokens=meta.prompt_tokens,
            completion_tokens=meta.completion_tokens,
            finish=finish,
            matched_stop=matched,
            cached_tokens=meta.cached_tokens,
        )

    async def abort(self, tag: str) -> bool:
        self._aborted.add(tag)
        await self._http.send("/abort_request", {"rid": tag})
        return True

    async def load(self) -> Load:
        if not self._has_loads:
            return await self._old_load()
        try:
            ranks = (await self._http.get("/v1/loads?include=core", _Loads)).loads
        except faults.NotServed:
            old = await self._old_load()
            self._has_loads = False
            return old
        return Load(
            running=sum(r.num_running_reqs for r in ranks),
            queued=sum(r.num_waiting_reqs for r in ranks),
            kv_used=sum(r.num_used_tokens or 0 for r in ranks),
            kv_total=sum(r.max_total_num_tokens or 0 for r in ranks) or None,
            generation_rate=sum(r.gen_throughput or 0.0 for r in ranks),
            preemptions=await self._retractions(),
        )

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        body = {
            "input_ids": ids,
            "sampling_params": _sampling(_NEUTRAL, 0, (), None),
            "return_logprob": True,
            "logprob_start_len": start - 1,  # the first of the list has no log-probability
            "top_logprobs_num": top,
            "stream": False,
        }
        meta = (await self._http.post("/generate", body, _Reply, patient=True)).meta_info
        self._finish(meta.finish_reason)
        scored = (meta.input_token_logprobs or [])[-(len(ids) - start) :]
        values = [value for value, _, _ in scored if value is not None]
        if [token for _, token, _ in scored] != ids[start:] or len(values) != len(scored):
            raise ReplyFault(f"{self.name}: the log-probabilities are not those of the ids that were sent")
        if not top:
            return Scored(values)
        given = (meta.input_top_logprobs or [])[-len(values) :]
        if len(given) != len(values) or not all(given):
            raise ReplyFault(f"{self.name}: it does not say which ids are the likeliest")
        return Scored(values, [{token: value for value, token, _ in entry or ()} for entry in given])

    async def tokenize(self, text: str) -> list[int] | None:
        try:
            return (await self._http.post("/tokenize", {"prompt": text, "add_special_tokens": False}, _Tokens)).tokens
        except faults.NotServed:  # older than the call
            return None

    async def own_stops(self, candidates: list[int]) -> list[int]:
        return []  # it stops at the ids that it is sent, and at the end of sequence of the model's own files

    async def close(self) -> None:
        await self._http.close()

    async def _answer(self, body: dict[str, Any], every: float, on_ids: OnIds | None) -> tuple[_Meta, Sequence[int]]:
        if on_ids and self._streams:
            params = body["sampling_params"] | {"stream_interval": self._pace.interval(every)}
            try:
                return await self._streamed(body | {"stream": True, "sampling_params": params}, on_ids)
            except SetupFault as fault:
                if "stream_interval" not in fault.message:
                    raise
                self._streams = False  # older: an event for each token with all ids so far would cost too much
        reply, apart = await self._http.ask("/generate", body, _REPLY)
        return reply.meta_info, self._http.ids(reply.output_ids, apart)

    async def _streamed(self, body: dict[str, Any], on_ids: OnIds) -> tuple[_Meta, Sequence[int]]:
        stream = _Stream(self._http, Growing(self.name, self._pace), on_ids)
        await self._http.stream("/generate", body, stream.hear)
        ids = stream.answer.ids
        if stream.last is None:
            raise TransportFault(f"{self.name}: the answer ended in its middle, after {len(ids)} ids")
        return stream.last, Ids(ids)

    def _finish(self, finish: _Finish | None) -> tuple[Finish, int | None]:
        if finish is None:
            raise ReplyFault(f"{self.name}: the reply does not say how the answer ended")
        if finish.type == "abort":
            raise faults.of_abort("sglang", self.name, finish.status_code, finish.message or "no reason given")
        if finish.type == "length":
            return Finish.LENGTH, None
        if finish.type == "stop" and not isinstance(finish.matched, str):
            last = finish.matched[-1] if isinstance(finish.matched, list) and finish.matched else finish.matched
            return Finish.STOP, last if isinstance(last, int) else None
        # "NaN happened" also writes a false end of sequence into the ids
        raise ReplyFault(f"{self.name}: the answer ended by {finish.type!r}, {finish.matched!r}")

    async def _either(self, path: str, older: str, reply: type[T]) -> T:
        try:
            return await self._http.get(path, reply)
        except faults.NotServed:
            return await self._http.get(older, reply)

    async def _retractions(self) -> int | None:
        """A counter of the metrics, which SGLang serves with --enable-metrics only."""
        if not self._has_metrics:
            return None
        try:
            total = metrics.totals(await self._http.get_text("/metrics"))
        except EngineError:
            self._has_metrics = False
            return None
        return int(total.get("sglang:num_retracted_requests_total", 0))  # the counter appears when it first counts

    async def _old_load(self) -> Load:
        found = await self._http.get("/get_load", list[_OldRank] | _OldRank)  # type: ignore[arg-type]
        ranks = found if isinstance(found, list) else [found]
        queued = sum(r.num_waiting_reqs for r in ranks)
        used = sum(r.num_tokens or 0 for r in ranks)
        return Load(running=sum(r.num_reqs for r in ranks) - queued, queued=queued, kv_used=used)


def _sampling(sampling: Sampling, limit: int, stop_ids: tuple[int, ...], seed: int | None) -> dict[str, Any]:
    params: dict[str, Any] = sampling.__dict__ | {
        "max_new_tokens": limit,
        "min_new_tokens": 0,
        "n": 1,
        "stop": None,
        "stop_token_ids": list(stop_ids),
        "ignore_eos": False,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": True,
        "no_stop_trim": True,
    }
    return params if seed is None else params | {"sampling_seed": seed % _SEEDS}
