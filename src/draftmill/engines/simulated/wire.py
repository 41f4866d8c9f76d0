"""SGLang's words: the bodies of its replies, field for field as version 0.5.23 gives them."""

from typing import Any

from draftmill.engines.protocol import Load
from draftmill.engines.simulated.passes import Counters
from draftmill.engines.simulated.sequence import Outcome, Sequence
from draftmill.engines.simulated.spec import ServerSpec

Body = dict[str, Any]

_NANO = 1e9
_LABELS = 'engine_type="unified",model_name="{model}",moe_ep_rank="0",pp_rank="0",tp_rank="0"'


def too_long(spec: ServerSpec, prompt: int, limit: int) -> str | None:
    """Why a request is refused for its length, or None."""
    if prompt == 0:
        return "input_ids cannot be empty."
    if prompt >= spec.context:
        return f"The input ({prompt} tokens) is longer than the model's context length ({spec.context} tokens)."
    if prompt + limit > spec.context:
        return (
            f"Requested token count exceeds the model's maximum context length of {spec.context} tokens. You requested "
            f"a total of {prompt + limit} tokens: {prompt} tokens from the input messages and {limit} tokens for the "
            "completion. Please reduce the number of tokens in the input messages or the completion to fit within the "
            "limit."
        )
    if prompt >= spec.max_prompt:
        return (
            f"Input length ({prompt} tokens) exceeds the maximum allowed length ({spec.max_prompt} tokens). Use a "
            "shorter input or enable --allow-auto-truncate."
        )
    return None


def refusal(message: str) -> Body:
    """The body of a 400."""
    return {"error": {"message": message}}


def failure(status: int, message: str) -> Body:
    """The body of a 5xx that the scheduler sends."""
    return {"object": "error", "message": message, "type": str(status), "param": None, "code": status}


QUEUE_FULL = failure(503, "The request queue is full.")


def reply(sequence: Sequence, spec: ServerSpec, ids: list[int], offset: float = 0.0) -> Body:
    """One reply, or one chunk of a stream where the sequence has not ended. ``offset`` makes its times wall times."""
    finish: Body | None = None
    match sequence.outcome:
        case Outcome.STOP:
            finish = {"type": "stop", "matched": ids[-1]}
        case Outcome.LENGTH:
            finish = {"type": "length", "length": len(ids)}
        case Outcome.ABORTED:
            finish = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        case Outcome.REFUSED:
            message = QUEUE_FULL["message"]
            finish = {"type": "abort", "message": message, "status_code": 503, "err_type": None}
    admitted = sequence.admitted if sequence.admitted is not None else sequence.arrived
    meta: Body = {
        "id": sequence.tag,
        "finish_reason": finish,
        "prompt_tokens": len(sequence.prompt_ids),
        "weight_version": spec.weights,
        "num_retractions": sequence.retractions,
        "queue_time": (admitted - sequence.arrived) / _NANO,
        "reasoning_tokens": 0,
        "completion_tokens": len(ids),
        "cached_tokens": sequence.cached,
        "cached_tokens_details": {"device": sequence.cached, "host": 0},
        "dp_rank": None,
    }
    if sequence.ended is not None:
        first = sequence.first_token if sequence.first_token is not None else sequence.ended
        decoding = max(1, sequence.ended - first) / _NANO
        meta |= {
            "weight_versions": [{"version": spec.weights, "start": 0, "end": len(ids)}],
            "e2e_latency": (sequence.ended - sequence.arrived) / _NANO,
            "request_received_ts": offset + sequence.arrived / _NANO,
            "request_finished_ts": offset + sequence.ended / _NANO,
            "first_token_latency": (first - sequence.arrived) / _NANO,
            "decode_throughput": (len(ids) - 1) / decoding,
        }
    return {"text": "", "output_ids": ids, "meta_info": meta}


def model_info(spec: ServerSpec) -> Body:
    return {
        "model_path": spec.model,
        "served_model_name": spec.model,
        "tokenizer_path": spec.model,
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": spec.weights,
        "load_format": "auto",
        "model_type": "simulated",
        "architectures": ["Simulated"],
    }


def server_info(spec: ServerSpec) -> Body:
    return {
        "model_path": spec.model,
        "tokenizer_path": spec.model,
        "served_model_name": spec.model,
        "context_length": spec.context,
        "kv_cache_dtype": spec.kv_dtype,
        "chunked_prefill_size": spec.chunk,
        "max_running_requests": spec.max_running,
        "max_queued_requests": spec.max_queued,
        "schedule_policy": "fcfs",
        "page_size": 1,
        "disable_radix_cache": not spec.prefix_cache,
        "allow_auto_truncate": False,
        "stream_interval": 1,
        "incremental_streaming_output": False,
        "enable_metrics": True,
        "tp_size": 1,
        "dp_size": 1,
        "weight_version": spec.weights,
        "status": "ready",
        "max_total_num_tokens": spec.kv_tokens,
        "max_req_input_len": spec.max_prompt,
        "internal_states": [{}],
        "version": spec.version,
        "frontend": "python",
    }


def loads(spec: ServerSpec, load: Load, counters: Counters, when: float, stamp: str) -> Body:
    """``/v1/loads``. ``when`` is the wall time, ``stamp`` the same in ISO form."""
    used, total = load.kv_used or 0, spec.kv_tokens
    rank = {
        "timestamp": when,
        "dp_rank": 0,
        "num_running_reqs": load.running,
        "num_waiting_reqs": load.queued,
        "num_used_tokens": used,
        "max_total_num_tokens": total,
        "max_running_requests": spec.max_running,
        "token_usage": round(used / total, 4),
        "gen_throughput": round(load.generation_rate or 0.0, 2),
        "cache_hit_rate": round(_hit_rate(counters), 4),
        "utilization": 0.0,
    }
    return {"timestamp": stamp, "version": spec.version, "accelerator": None, "num_accelerators": 1, "loads": [rank]}


def metrics(spec: ServerSpec, load: Load, counters: Counters) -> str:
    """``/metrics``. The counter of retractions appears when it first counts, as prometheus counters do there."""
    gauges = {
        "num_running_reqs": load.running,
        "num_queue_reqs": load.queued,
        "num_used_tokens": load.kv_used or 0,
        "token_usage": (load.kv_used or 0) / spec.kv_tokens,
        "gen_throughput": load.generation_rate or 0.0,
        "cache_hit_rate": _hit_rate(counters),
        "max_total_num_tokens": spec.kv_tokens,
    }
    totals = {
        "prompt_tokens_total": counters.prompt_tokens,
        "generation_tokens_total": counters.generated,
        "num_retracted_requests_total": counters.retractions,
        "num_aborted_requests_total": counters.aborted,
    }
    labels = "{" + _LABELS.format(model=spec.model) + "}"
    lines = []
    for kind, values in (("gauge", gauges), ("counter", {name: n for name, n in totals.items() if n})):
        for name, value in values.items():
            lines += [f"# TYPE sglang:{name} {kind}", f"sglang:{name}{labels} {float(value)}"]
    return "\n".join(lines) + "\n"


def _hit_rate(counters: Counters) -> float:
    looked_up = counters.prefilled + counters.cached
    return counters.cached / looked_up if looked_up else 0.0
