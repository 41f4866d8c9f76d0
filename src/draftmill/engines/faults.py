"""The one place that decides which path a failed engine call takes (rule 7 of the design).

``CASES`` is read from the top and the first case that fits wins. A case fits on the HTTP status (or the status that
SGLang puts inside an abort; None when it gives none) and on a pattern in the message. What no case names falls to the
status: 5xx and "no status" are transport, any other status is a fault of the set-up. Messages carry the engine's name,
the status and the start of the body; headers, and with them API keys, never get here.
"""

import re
from typing import NamedTuple

import aiohttp
import msgspec

from draftmill.engines.protocol import Request
from draftmill.errors import CapacityFault, EngineError, PromptFault, ReplyFault, SetupFault, TransportFault

EXCERPT = 300  # characters of a body that a message quotes


class NotServed(SetupFault):
    """A 404: the server has no such call, or no such model."""


class NotThere(TransportFault):
    """Nobody listens at its place."""


class Case(NamedTuple):
    """One known failure. ``engine`` and ``status`` None fit any."""

    engine: str | None
    status: int | None
    pattern: str
    fault: type[EngineError]


CASES = (
    # too long, in the words of each server
    Case("sglang", None, r"is longer than the model's context length", PromptFault),
    Case("sglang", None, r"[Rr]equested token count exceeds the model's maximum context length", PromptFault),
    Case("sglang", None, r"Input length \(\d+ tokens\) exceeds the maximum allowed length", PromptFault),
    Case("vllm", 400, r"maximum context length is \d+ tokens", PromptFault),
    Case("vllm", 400, r"longer than the maximum model length", PromptFault),
    Case("vllm", 400, r"exceeds model's maximum context length", PromptFault),
    # a prompt that fills the context to the last token: we always ask for at least one
    Case("vllm", 400, r"max_tokens must be at least 1, got (0|-\d+)", PromptFault),
    Case("llamacpp", 400, r"exceed_context_size_error", PromptFault),
    Case("llamacpp", None, r"the request exceeds the available context size", PromptFault),  # older: a 500
    # ids that are none ("stop_token_ids contain out-of-vocab" is a fault of the set-up and says it otherwise)
    Case("vllm", 400, r"Token id -?\d+ is out of vocabulary", PromptFault),
    Case("vllm", 400, r"body\.prompt\.\d+", PromptFault),
    Case("sglang", 400, r"input_ids cannot be empty", PromptFault),
    Case("vllm", 400, r"must pass at least one prompt", PromptFault),
    Case("llamacpp", 400, r"Prompt contains invalid tokens", PromptFault),
    Case("llamacpp", 400, r'prompt\\?" must not be empty', PromptFault),
    # full: fewer at once, and no attempt is counted
    Case(None, 429, r"", CapacityFault),
    Case("sglang", None, r"request queue is full", CapacityFault),
    Case("sglang", None, r"aborted by a higher priority request", CapacityFault),
    Case("sglang", None, r"Request waiting timeout reached", CapacityFault),
    # SGLang cuts every limit to what its KV pool holds for one request alone, so this is crowding, not the prompt
    Case("sglang", None, r"[Oo]ut of memory even after retracting", CapacityFault),
    Case("sglang", None, r"[Rr]etracted under decode memory pressure", CapacityFault),
    Case("vllm", 503, r"currently busy and cannot accept new requests", CapacityFault),
    Case("vllm", 503, r"prefill token backlog limit", CapacityFault),
    Case("llamacpp", 501, r"", NotServed),  # a call that needs a launch option, /metrics for one
    # a proxy or a server that gave up waiting for the body: try again
    Case(None, 408, r"", TransportFault),
)


def of_status(engine: str, name: str, status: int, body: bytes) -> EngineError:
    """The fault of an HTTP answer that is not 200."""
    text = body.decode("utf-8", "replace")
    fault = _fault(engine, status, text)
    if fault is SetupFault and status == 404:
        fault = NotServed
    return fault(f"{name}: HTTP {status}: {_excerpt(text)}", _advice(fault, status))


def of_abort(engine: str, name: str, status: int | None, message: str) -> EngineError:
    """The fault of a generation that the server gave up inside an HTTP 200."""
    said = f" ({status})" if status else ""
    return _fault(engine, status, message)(f"{name}: aborted by the server{said}: {_excerpt(message)}")


def of_exception(name: str, error: Exception) -> EngineError:
    """The fault of a call that got no whole answer. Only text that holds no header is taken over."""
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return SetupFault(f"{name}: the TLS connection is refused: {type(error).__name__}")
        case aiohttp.InvalidURL():
            return SetupFault(f"{name}: not a URL that can be called")
        case aiohttp.ClientConnectorError():
            reason = error.os_error.strerror or str(error.os_error)
            return NotThere(f"no server answers at {name}: {reason}", "is it running, and is the URL right?")
        case TimeoutError():
            return TransportFault(f"{name}: no answer in time", "does it hang? see its log; then start it again")
        case aiohttp.ServerDisconnectedError():
            return TransportFault(f"{name}: the server closed the connection without an answer")
        case aiohttp.ClientPayloadError():
            return TransportFault(f"{name}: the answer was cut off")
        case OSError():
            return TransportFault(f"{name}: the connection broke: {error.strerror or type(error).__name__}")
        case _:
            return TransportFault(f"{name}: the call failed: {type(error).__name__}")


def of_limit(name: str, request: Request, generated: int) -> EngineError:
    """The fault of an answer that ended "at its limit" before it: all three servers lower a limit that does not fit
    beside the prompt without a word, and the answer would pass for one cut at the limit that was sent."""
    return PromptFault(
        f"{name}: the prompt of {len(request.prompt_ids)} tokens and the limit of {request.limit} do not fit into the "
        f"server's context or KV cache together: it stopped after {generated} tokens"
    )


def of_body(name: str, error: msgspec.DecodeError, body: bytes) -> EngineError:
    """The fault of an HTTP 200 whose body cannot be used.

    JSON that ends in the middle was cut on its way (a dying server, a proxy): the same call may well succeed, so it is
    transport. Whole JSON of another shape is what the server means to say: evidence against it, so a reply fault.
    """
    text = _excerpt(body.decode("utf-8", "replace"))
    if isinstance(error, msgspec.ValidationError):
        return ReplyFault(f"{name}: an unexpected reply ({error}): {text}")
    return TransportFault(f"{name}: not valid JSON ({error}): {text}")


def _fault(engine: str, status: int | None, text: str) -> type[EngineError]:
    for case in CASES:
        fits = case.engine in (None, engine) and case.status in (None, status)
        if fits and re.search(case.pattern, text):
            return case.fault
    return TransportFault if status is None or status >= 500 else SetupFault


def _advice(fault: type[EngineError], status: int) -> str:
    if not issubclass(fault, SetupFault):
        return ""
    if status in (401, 403):
        return "the server wants another API key: name the variable that holds it with api_key_env in the recipe"
    if status == 404:
        return "the server has no such call or serves no such model: check the engine's url, kind and model"
    return ""


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= EXCERPT else text[:EXCERPT] + "…"
