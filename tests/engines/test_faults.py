import json

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.engines import faults
from draftmill.engines.protocol import Request
from draftmill.errors import CapacityFault, EngineError, PromptFault, ReplyFault, SetupFault, TransportFault
from draftmill.recipe import Sampling

NAME = "http://host:1"

# bodies as the servers wrote them
SGLANG_TOO_LONG = (
    '{"error":{"message":"The input (2048 tokens) is longer than the model\'s context length (2048 tokens)."}}'
)
SGLANG_TOGETHER = (
    '{"error":{"message":"Requested token count exceeds the model\'s maximum context length of 2048 tokens. You '
    'requested a total of 2049 tokens: 2040 tokens from the input messages and 9 tokens for the completion."}}'
)
SGLANG_POOL = (
    '{"error":{"message":"Input length (2042 tokens) exceeds the maximum allowed length (2042 tokens). Use …"}}'
)
SGLANG_KEY = '{"error":"unknown field `nonsense`, expected one of `max_new_tokens`, `stop`, `stop_token_ids`"}'
SGLANG_FULL = '{"object":"error","message":"The request queue is full.","code":503}'
VLLM_TOO_LONG = (
    '{"error":{"message":"This model\'s maximum context length is 2048 tokens. However, your prompt contains 3040 '
    'input tokens, which exceeds this limit even without any output tokens.","type":"BadRequestError","code":400}}'
)
VLLM_EXACTLY = (
    '{"error":{"message":"max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)","code":400}}'
)
VLLM_NEGATIVE = (
    "{\"error\":{\"message\":\"1 validation error:\\n  {'type': 'greater_than_equal', 'loc': 'body.prompt.1'}\"}}"
)
VLLM_VOCABULARY = '{"error":{"message":"Token id 99999999 is out of vocabulary","type":"BadRequestError","code":400}}'
VLLM_STOP_VOCABULARY = (
    '{"error":{"message":"token_id(s) [99999999] in stop_token_ids contain out-of-vocab token ids."}}'
)
VLLM_TYPE = '{"error":{"message":"1 validation error: {\'loc\': \'body.temperature\'}","code":400}}'
VLLM_BUSY = (
    '{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later"}}'
)
VLLM_BACKLOG = '{"error":{"message":"The engine has reached its prefill token backlog limit. Please try again later"}}'
VLLM_RETRY = '{"error":{"message":"Request failed; please retry","type":"ServiceUnavailableError","code":503}}'
LLAMA_TOO_LONG = (
    '{"error":{"code":400,"message":"request (600 tokens) exceeds the available context size (512 tokens), try '
    'increasing it","type":"exceed_context_size_error","n_prompt_tokens":600,"n_ctx":512}}'
)
LLAMA_INVALID = '{"error":{"code":400,"message":"Prompt contains invalid tokens","type":"invalid_request_error"}}'
LLAMA_EMPTY = '{"error":{"code":400,"message":"\\"prompt\\" must not be empty","type":"invalid_request_error"}}'
LLAMA_FIELD = '{"error":{"code":400,"message":"Field \'repeat_last_n\': Value must be between 0 <= value","type":"…"}}'
LLAMA_LOADING = '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'
RETRACTED = "Out of memory even after retracting all other requests in the decode batch. Aborting the last request."


@pytest.mark.parametrize(
    ("engine", "status", "body", "fault"),
    [
        ("sglang", 400, SGLANG_TOO_LONG, PromptFault),
        ("sglang", 400, SGLANG_TOGETHER, PromptFault),
        ("sglang", 400, SGLANG_POOL, PromptFault),
        ("sglang", 400, '{"error":{"message":"input_ids cannot be empty."}}', PromptFault),
        ("sglang", 400, SGLANG_KEY, SetupFault),
        ("sglang", 400, '{"error":"invalid type: string \\"a\\", expected f64"}', SetupFault),
        ("sglang", 503, SGLANG_FULL, CapacityFault),
        ("sglang", 503, '{"message":"Request waiting timeout reached."}', CapacityFault),
        ("sglang", 503, '{"message":"Request running timeout reached."}', TransportFault),
        ("sglang", 500, json.dumps({"message": RETRACTED}), CapacityFault),
        ("sglang", 500, "Internal Server Error", TransportFault),
        ("vllm", 400, VLLM_TOO_LONG, PromptFault),
        ("vllm", 400, VLLM_EXACTLY, PromptFault),
        ("vllm", 400, VLLM_VOCABULARY, PromptFault),
        ("vllm", 400, VLLM_NEGATIVE, PromptFault),
        ("vllm", 400, VLLM_STOP_VOCABULARY, SetupFault),
        ("vllm", 400, VLLM_TYPE, SetupFault),
        ("vllm", 404, '{"error":{"message":"The model `other` does not exist."}}', SetupFault),
        ("vllm", 503, VLLM_BUSY, CapacityFault),
        ("vllm", 503, VLLM_BACKLOG, CapacityFault),
        ("vllm", 503, VLLM_RETRY, TransportFault),
        ("vllm", 500, '{"error":{"message":"Internal server error"}}', TransportFault),
        ("llamacpp", 400, LLAMA_TOO_LONG, PromptFault),
        ("llamacpp", 400, LLAMA_INVALID, PromptFault),
        ("llamacpp", 400, LLAMA_EMPTY, PromptFault),
        ("llamacpp", 400, LLAMA_FIELD, SetupFault),
        ("llamacpp", 503, LLAMA_LOADING, TransportFault),
        ("llamacpp", 501, '{"error":{"message":"This server does not support metrics endpoint."}}', SetupFault),
        # one server's words do not count for another
        ("llamacpp", 503, SGLANG_FULL, TransportFault),
        ("sglang", 400, VLLM_VOCABULARY, SetupFault),
    ],
)
def test_status(engine: str, status: int, body: str, fault: type[EngineError]) -> None:
    found = faults.of_status(engine, NAME, status, body.encode())
    assert isinstance(found, fault)
    assert NAME in found.message and str(status) in found.message


@pytest.mark.parametrize("engine", ["sglang", "vllm", "llamacpp"])
@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (301, SetupFault),
        (400, SetupFault),
        (401, SetupFault),
        (403, SetupFault),
        (404, SetupFault),
        (405, SetupFault),
        (408, TransportFault),
        (413, SetupFault),
        (422, SetupFault),
        (429, CapacityFault),
        (500, TransportFault),
        (502, TransportFault),
        (503, TransportFault),
        (504, TransportFault),
    ],
)
def test_status_alone(engine: str, status: int, fault: type[EngineError]) -> None:
    assert type(faults.of_status(engine, NAME, status, b"")) in (fault, *fault.__subclasses__())


@given(st.integers(100, 599), st.binary(max_size=2000))
def test_any_answer_has_a_fault_and_a_short_message(status: int, body: bytes) -> None:
    found = faults.of_status("sglang", NAME, status, body)
    assert isinstance(found, EngineError)
    assert len(found.message) < faults.EXCERPT + 100
    assert "\n" not in found.message


@pytest.mark.parametrize(
    ("status", "message", "fault"),
    [
        (None, "Abort in waiting queue", TransportFault),
        (None, RETRACTED, CapacityFault),
        (500, RETRACTED, CapacityFault),
        (503, "The request queue is full.", CapacityFault),
        (503, "The request is aborted by a higher priority request.", CapacityFault),
        (503, "Retracted under decode memory pressure without a KV backup. Retry later.", CapacityFault),
        (400, "Input length (9 tokens) exceeds the maximum allowed length (8 tokens).", PromptFault),
        (None, "Input length (9 tokens) exceeds the maximum allowed length (8 tokens).", PromptFault),
        (400, "Using priority is disabled for this server.", SetupFault),
    ],
)
def test_abort(status: int | None, message: str, fault: type[EngineError]) -> None:
    assert isinstance(faults.of_abort("sglang", NAME, status, message), fault)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (TimeoutError(), TransportFault),
        (ConnectionResetError(104, "Connection reset by peer"), TransportFault),
        (aiohttp.ServerDisconnectedError(), TransportFault),
        (aiohttp.ClientPayloadError("x"), TransportFault),
        (aiohttp.ServerTimeoutError(), TransportFault),
        (aiohttp.ClientOSError(32, "Broken pipe"), TransportFault),
        (aiohttp.InvalidURL("http://"), SetupFault),
        (RuntimeError("secret"), TransportFault),
    ],
)
def test_exception(error: Exception, fault: type[EngineError]) -> None:
    found = faults.of_exception(NAME, error)
    assert isinstance(found, fault)
    assert "secret" not in found.message


def test_a_server_that_listens_and_hangs_is_told_with_what_to_do() -> None:
    found = faults.of_exception(NAME, TimeoutError())
    assert (found.message, "start it again" in found.advice) == (f"{NAME}: no answer in time", True)


class Shape(msgspec.Struct):
    tokens: list[int]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b'{"tokens":[1,2', TransportFault),
        (b"", TransportFault),
        (b"<html>", TransportFault),
        (b'{"tokens":null}', ReplyFault),
        (b'{"text":"x"}', ReplyFault),
    ],
)
def test_unusable_body(body: bytes, fault: type[EngineError]) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(body, type=Shape)
    assert isinstance(faults.of_body(NAME, caught.value, body), fault)


def test_a_limit_that_was_lowered_names_both_numbers() -> None:
    request = Request(prompt_ids=[1] * 510, limit=100, sampling=Sampling(), stop_ids=(2,), tag="t")
    found = faults.of_limit(NAME, request, 2)
    assert isinstance(found, PromptFault)
    assert "510" in found.message and "100" in found.message
