"""A server on the loopback interface that costs as little as it can, so that a benchmark sees the client's cost.

It speaks just enough of HTTP/1.1 for a POST with a length, and answers with bytes made beforehand:

- ``/generate``, SGLang's call: at once, or streamed as SGLang does it, events with all ids and all text so far,
  one every ``stream_interval`` tokens, the first after one token;
- ``/v1/completions``, vLLM's: at once, or streamed, events with new ids, one a token or every ``stream_interval``;
- ``/v1/chat/completions`` with the ids of prompt and answer, as vLLM gives them with ``return_token_ids``.

Usage: loopback.py [ANSWER_IDS [TOKENS_A_SECOND]]; prints its port. The speed is that of each streamed answer.
"""

import asyncio
import contextlib
import functools
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import cast

import uvloop

PROMPT, ANSWER, SPEED = 500, 1000, 50.0
STOP = 2
WORD = "word "  # the text of a token is about as long

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_INTERVAL = re.compile(rb'"stream_interval":(\d+)')

_PROMPTS = [[10 + (n * 397 + i) % 40_000 for i in range(PROMPT)] for n in range(97)]


def prompt(number: int) -> list[int]:
    """One of a few, made beforehand: what a client does with it is measured, not how it is made."""
    return _PROMPTS[number % len(_PROMPTS)]


def answer(length: int) -> list[int]:
    return [10 + i % 40_000 for i in range(length - 1)] + [STOP]


def _json(said: object) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()


def _sglang(so_far: int, length: int) -> bytes:
    done = so_far == length
    meta = {
        "id": "5f0c9d0e6f6b4c3a9a52c7a6c9a0f8d1",
        "finish_reason": {"type": "stop", "matched": STOP} if done else None,
        "prompt_tokens": PROMPT,
        "weight_version": "default",
        "total_retractions": 0,
        "completion_tokens": so_far,
        "cached_tokens": 0,
        "e2e_latency": 1.5 if done else None,
    }
    return _json({"text": WORD * so_far, "output_ids": answer(length)[:so_far], "meta_info": meta})


def _vllm(first: int, end: int, length: int, streamed: bool) -> bytes:
    choice = {
        "index": 0,
        "text": WORD * (end - first),
        "logprobs": None,
        "finish_reason": "stop" if end == length else None,
        "stop_reason": STOP if end == length else None,
        "token_ids": answer(length)[first:end],
    }
    head = {"id": "cmpl-5f0c9d0e", "object": "text_completion", "created": 1700000000, "model": "m"}
    return _json(head | {"choices": [choice], "usage": None if streamed else _usage(length)})


def _usage(length: int) -> dict[str, int]:
    return {"prompt_tokens": PROMPT, "total_tokens": PROMPT + length, "completion_tokens": length}


def _chat(length: int) -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": WORD * length, "tool_calls": []},
        "finish_reason": "stop",
        "stop_reason": STOP,
        "token_ids": answer(length),
    }
    head = {"id": "chatcmpl-5f0c9d0e", "object": "chat.completion", "created": 1700000000, "model": "m"}
    return _json(head | {"choices": [choice], "usage": _usage(length), "prompt_token_ids": prompt(0)})


def _whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def _chunk(body: bytes) -> bytes:
    event = b"data: " + body + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


@functools.cache
def _events(kind: str, interval: int, length: int) -> list[tuple[int, bytes]]:
    """The chunks of a streamed answer, each with the token that it comes after."""
    ends = [1, *range(1 + interval, length, interval), length]
    if kind == "sglang":
        chunks = [(end, _chunk(_sglang(end, length))) for end in ends]
    else:
        starts = [0, *ends]
        chunks = [(end, _chunk(_vllm(start, end, length, True))) for start, end in zip(starts, ends, strict=False)]
        chunks.append((length, _chunk(_json({"id": "cmpl-5f0c9d0e", "choices": [], "usage": _usage(length)}))))
    last, chunk = chunks[-1]
    return [*chunks[:-1], (last, chunk + _chunk(b"[DONE]") + b"0\r\n\r\n")]


_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
_CALLS = {b"/generate": "sglang", b"/v1/completions": "vllm"}


class _Connection(asyncio.Protocol):
    def __init__(self, length: int, speed: float, whole: dict[bytes, bytes]) -> None:
        self._length = length
        self._speed = speed
        self._whole = whole
        self._read = bytearray()
        self._asked: tuple[bytes, int] | None = None  # path, and bytes of the request in all
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._read += data
        if self._asked is None:
            end = self._read.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._read[:end])
            found = _LENGTH.search(head)
            self._asked = head.split(b" ", 2)[1], end + 4 + (int(found[1]) if found else 0)
        path, size = self._asked
        if len(self._read) < size:
            return
        body, self._read, self._asked = bytes(self._read[:size]), self._read[size:], None
        if path in _CALLS and b'"stream":true' in body:
            interval = _INTERVAL.search(body)
            events = _events(_CALLS[path], int(interval[1]) if interval else 1, self._length)
            self._transport.write(_STREAM)
            # not all at the same instant: the answers of a real server are each somewhere else
            began = asyncio.get_running_loop().time() + random.random() * min(1.0, self._length / self._speed)
            self._stream(iter(events), began)
        else:
            self._transport.write(self._whole.get(path, _NOT_FOUND))

    def _stream(self, events: Iterator[tuple[int, bytes]], began: float, ready: bytes = b"") -> None:
        """Send what is ready and wait for the next event."""
        loop = asyncio.get_running_loop()
        while True:
            if self._transport.is_closing():
                return
            self._transport.write(ready)
            token, ready = next(events, (0, b""))
            if not ready:
                return
            pause = began + token / self._speed - loop.time()
            if pause > 0:
                loop.call_later(pause, self._stream, events, began, ready)
                return


async def serve(length: int, speed: float) -> None:
    whole = {
        b"/generate": _whole(_sglang(length, length)),
        b"/v1/completions": _whole(_vllm(0, length, length, False)),
        b"/v1/chat/completions": _whole(_chat(length)),
    }
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(length, speed, whole), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


@contextlib.contextmanager
def running(length: int = ANSWER, speed: float = SPEED) -> Iterator[str]:
    """The URL of such a server, in a process of its own."""
    command = [sys.executable, __file__, str(length), str(speed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    uvloop.run(serve(int(arguments[0]) if arguments else ANSWER, float(arguments[1]) if arguments[1:] else SPEED))
