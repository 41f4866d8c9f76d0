"""The client of a llama.cpp server (``/completion``), alone or embedded.

llama.cpp has no stop ids: its end-of-generation set, guessed from the names of the GGUF's tokens, decides what ends an
answer. ``own_stops`` finds that set out; an id of the request that is not in it is caught by ``check_reply``. Its
presence and frequency penalties count the prompt too, where vLLM and SGLang count generated ids only, so they are
refused rather than sent.
"""

import asyncio
from typing import Any

import msgspec

from draftmill.engines import metrics
from draftmill.engines.check import check_request
from draftmill.engines.faults import NotServed, of_limit
from draftmill.engines.http import Http
from draftmill.engines.protocol import Identity, Load, OnIds, Reply, Request, Scored
from draftmill.errors import PromptFault, ReplyFault, SetupFault
from draftmill.recipe import Sampling
from draftmill.records import Finish

_AT_ONCE = 8  # small questions under way together
_SEEDS = 2**32 - 1  # the highest 32-bit seed means a random one
_FORCE = 1e9  # a logit bias that no logit outweighs
_SOME, _ALL = 1000, 2**31 - 1  # ids that a server lists; all of a vocabulary take it a third of a second


class _Timings(msgspec.Struct):
    cache_n: int | None = None


class _Likely(msgspec.Struct):
    id: int
    logprob: float


class _Probability(_Likely):
    top_logprobs: list[_Likely] = []


class _Reply(msgspec.Struct):
    tokens: list[int]
    tokens_predicted: int
    tokens_evaluated: int
    stop_type: str
    truncated: bool = False
    timings: _Timings | None = None
    completion_probabilities: list[_Probability] = []


class _Settings(msgspec.Struct):
    n_ctx: int


class _Props(msgspec.Struct):
    default_generation_settings: _Settings
    total_slots: int
    model_path: str | None = None
    build_info: str | None = None
    model_ftype: str | None = None


class _Meta(msgspec.Struct):
    n_vocab: int | None = None
    ftype: str | None = None


class _Model(msgspec.Struct):
    meta: _Meta | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Slot(msgspec.Struct):
    is_processing: bool


class _Tokens(msgspec.Struct):
    tokens: list[int]


class LlamaCpp:
    """One llama.cpp server behind the Engine protocol. ``prompt_cache`` off makes answers independent of the slot."""

    def __init__(self, http: Http, prompt_cache: bool = True) -> None:
        self._http = http
        self.name = http.name
        self._prompt_cache = prompt_cache
        self._rate = metrics.Rate()

    async def identify(self) -> Identity:
        props = await self._http.get("/props", _Props)
        try:
            listed = (await self._http.get("/v1/models", _Models)).data
        except NotServed:
            listed = []
        meta = listed[0].meta if listed else None
        context = props.default_generation_settings.n_ctx
        return Identity(
            kind="llamacpp",
            name=self.name,
            version=props.build_info,
            model=props.model_path,
            weights=props.model_ftype or (meta.ftype if meta else None),
            vocab_size=meta.n_vocab if meta else None,
            context=context,
            max_prompt=context - 1,
            slots=props.total_slots,
            kv_tokens=context * props.total_slots,
        )

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        if reason := check_request(request):
            raise PromptFault(reason)
        sampling, seed = request.sampling, request.seed
        if sampling.presence_penalty or sampling.frequency_penalty:
            raise SetupFault(
                f"{self.name}: llama.cpp counts the prompt in presence and frequency penalties, so it would sample "
                "another distribution than vLLM or SGLang",
                "set both to 0, or use another engine",
            )
        covered = len(request.prompt_ids) + request.limit
        body = _sampling(sampling, covered) | {
            "prompt": request.prompt_ids,
            "n_predict": request.limit,
            "seed": -1 if seed is None else seed % _SEEDS,
            "cache_prompt": self._prompt_cache,
        }
        # Not streamed: a stream leaves out the ids of a character that is not whole yet, and never sends them. The
        # price is that a call which is dropped keeps its slot until its answer is done.
        reply = await self._http.post("/completion", body, _Reply, patient=True)
        if reply.stop_type not in ("eos", "limit"):
            raise ReplyFault(f"{self.name}: the answer ended by {reply.stop_type!r}")
        finish = Finish.STOP if reply.stop_type == "eos" else Finish.LENGTH
        if (finish is Finish.LENGTH and reply.tokens_predicted < request.limit) or await self._shifted(reply):
            raise of_limit(self.name, request, reply.tokens_predicted)
        return Reply(
            output_ids=reply.tokens,
            prompt_tokens=reply.tokens_evaluated,
            completion_tokens=reply.tokens_predicted,
            finish=finish,
            cached_tokens=reply.timings.cache_n if reply.timings else None,
        )

    async def abort(self, tag: str) -> bool:
        return False  # only a stream would hold a beginning, and a stream leaves ids out

    async def load(self) -> Load:
        """From /metrics where the server has it (--metrics), else from /slots, which knows no queue.

        The counter of generated tokens grows when an answer ends, so the rate is right over minutes, not seconds.
        """
        try:
            totals = metrics.totals(await self._http.get_text("/metrics"))
        except NotServed:
            slots = await self._http.get("/slots", list[_Slot])
            return Load(running=sum(slot.is_processing for slot in slots), queued=0)
        generated = totals.get("llamacpp:tokens_predicted_total")
        return Load(
            running=int(totals.get("llamacpp:requests_processing", 0)),
            queued=int(totals.get("llamacpp:requests_deferred", 0)),
            generation_rate=None if generated is None else self._rate.of(generated),
            work=totals.get("llamacpp:n_decode_total"),
        )

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        """One call an id: a logit bias forces it, and the server reports its probability from before the bias."""
        values, likeliest = [], []
        for at in range(start, len(ids)):
            logprob, listed = await self._step(ids, at, top)
            values.append(logprob)
            likeliest.append(listed)
        return Scored(values, likeliest if top else None)

    async def _step(self, ids: list[int], at: int, top: int) -> tuple[float, dict[int, float]]:
        """The log-probability of the id at ``at``, and the ``top`` likeliest ids there."""
        if found := await self._forced(ids[:at], ids[at], max(top, 1)):
            return found.logprob, {said.id: said.logprob for said in found.top_logprobs[:top]}
        # An id that ends within a character is told no probability of, but is listed beside one that is whole.
        whole = (await self.tokenize("a") or [])[-1]
        for size in (max(top, _SOME), _ALL):
            found = await self._forced(ids[:at], whole, size)
            listed = {said.id: said.logprob for said in found.top_logprobs} if found else {}
            if ids[at] in listed:
                return listed[ids[at]], dict(list(listed.items())[:top])
        raise ReplyFault(f"{self.name}: it tells no log-probability of the id {ids[at]} at {at}")

    async def _forced(self, ids: list[int], token: int, size: int) -> _Probability | None:
        """What the server says of the ids that may follow ``ids`` when ``token`` is forced, None where it is silent."""
        body = _sampling(Sampling(temperature=0.0), 0) | {
            "prompt": ids,
            "n_predict": 1,
            "seed": 0,
            "cache_prompt": True,
            "n_probs": size,
            "post_sampling_probs": False,
            "logit_bias": [[token, _FORCE]],
        }
        reply = await self._http.post("/completion", body, _Reply, patient=True)
        found = reply.completion_probabilities
        if len(found) > 1 or reply.tokens_evaluated != len(ids) or (found and found[0].id != token):
            raise ReplyFault(f"{self.name}: the log-probability at {len(ids)} is not that of the id {token}")
        return found[0] if found else None

    async def tokenize(self, text: str) -> list[int] | None:
        body = {"content": text, "add_special": False, "parse_special": True}
        return (await self._http.post("/tokenize", body, _Tokens)).tokens

    async def own_stops(self, candidates: list[int]) -> list[int]:
        """Ask for each id: forced by a logit bias, an id of the end-of-generation set ends the answer at once."""
        if not candidates:
            return []
        gate = asyncio.Semaphore(_AT_ONCE)

        async def ends(token: int) -> bool:
            body = _sampling(Sampling(temperature=0.0), 0) | {
                "prompt": candidates[:1],
                "n_predict": 2,
                "seed": 0,
                "cache_prompt": True,
                "logit_bias": [[token, _FORCE]],
            }
            async with gate:
                return (await self._http.post("/completion", body, _Reply, patient=True)).stop_type == "eos"

        found = await asyncio.gather(*map(ends, candidates))
        return [token for token, end in zip(candidates, found, strict=True) if end]

    async def close(self) -> None:
        await self._http.close()

    async def _shifted(self, reply: _Reply) -> bool:
        """Whether a server with context shift dropped the start of the prompt to go on. ``truncated`` alone only says
        that the context was full at the end."""
        if not reply.truncated:
            return False
        return reply.tokens_evaluated + reply.tokens_predicted > ((await self.identify()).context or 0)


def _sampling(sampling: Sampling, covered: int) -> dict[str, Any]:
    """Every sampling field of the server. The temperature comes before the cuts, as in vLLM and SGLang; llama.cpp's own
    order would cut at temperature 1. ``covered`` is the reach of the repetition penalty: prompt and answer, as in vLLM.
    """
    return {
        "samplers": ["penalties", "temperature", "top_k", "top_p", "min_p"],
        "temperature": sampling.temperature,
        "top_k": max(sampling.top_k, 0),  # 0 is off
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repetition_penalty,
        "repeat_last_n": covered if sampling.repetition_penalty != 1.0 else 0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "typical_p": 1.0,
        "top_n_sigma": -1.0,
        "xtc_probability": 0.0,
        "dry_multiplier": 0.0,
        "dynatemp_range": 0.0,
        "mirostat": 0,
        "adaptive_target": -1.0,
        "min_keep": 0,
        "n_probs": 0,
        "n_keep": 0,
        "n_discard": 0,
        "logit_bias": [],
        "grammar": "",
        "stop": [],
        "ignore_eos": False,
        "stream": False,
        "return_tokens": True,
    }
