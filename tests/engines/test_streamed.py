"""Reading answers while they grow: never other ids than the events hold, and few events."""

import asyncio
import json
from array import array
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from draftmill.engines.http import STREAM_BYTES, Http, _Lines
from draftmill.engines.protocol import Engine, Reply, Request
from draftmill.engines.sglang import SGLang
from draftmill.engines.streamed import FIRST_INTERVAL, Growing, Pace, Repeating
from draftmill.engines.vllm import VLLM
from draftmill.errors import ReplyFault, TransportFault
from draftmill.recipe import Sampling
from draftmill.records import Finish
from tests.engines.test_http import against

# the pace


def test_nothing_is_known_at_first() -> None:
    pace = Pace()
    assert pace.interval(1.0) == FIRST_INTERVAL
    pace.note(0, 0.0)
    assert pace.interval(1.0) == FIRST_INTERVAL


def test_an_event_comes_about_as_often_as_it_is_wanted() -> None:
    pace = Pace()
    for _ in range(50):
        pace.note(16, 0.5)
        pace.note(30, 1.0)
    assert pace.interval(1.0) in (30, 31)
    assert pace.interval(0.1) == 3
    assert pace.interval(0.001) == 1
    for _ in range(2000):
        pace.note(5, 1.0)  # the server has become slow
    assert pace.interval(1.0) == 5


# what is new in an event that repeats all ids


class Ids(msgspec.Struct):
    output_ids: list[int] = []


texts = st.text(st.sampled_from('ab"\\[]{}:,0é\n') | st.characters()) | st.just('"output_ids":[1,2]')
events = st.tuples(texts, st.lists(st.integers(0, 3) | st.integers(0, 200_000), max_size=40))


@given(st.lists(events, max_size=8), st.booleans(), st.booleans())
def test_only_new_ids_are_left_of_an_event(told: list[tuple[str, list[int]]], grows: bool, compact: bool) -> None:
    """Of any events one after the other; in those that do repeat, nothing is read twice."""
    repeating, before, text = Repeating(), [], ""
    for more, ids in told:
        whole = before + ids if grows else ids
        text = text + more if grows else more
        said = {"text": text, "output_ids": whole, "meta_info": {"of": [1, 2], "output_ids": "]"}}
        event = json.dumps(said, separators=(",", ":") if compact else None).encode()
        rest = repeating.rest(event)
        if grows and compact and before:
            assert rest is not None
        if rest is not None and grows:
            assert msgspec.json.decode(rest, type=Ids).output_ids == ids
            assert msgspec.json.decode(rest)["meta_info"] == said["meta_info"]
        before = whole


@pytest.mark.parametrize(
    "event",
    [b"", b"{}", b'{"error":{"message":"x"}}', b'{"output_ids":[]}', b'{"output_ids":[1,2', b'{"output_ids": [1, 2]}'],
)
def test_an_event_that_repeats_nothing_is_read_whole(event: bytes) -> None:
    repeating = Repeating()
    assert repeating.rest(b'{"output_ids":[1,2,3]}') is None
    assert repeating.rest(event) is None
    assert repeating.rest(b'{"output_ids":[1,2,3,4]}') in (None, b'{"output_ids":[4]}')


def growing() -> Growing:
    async def make() -> Growing:
        return Growing("server", Pace())

    return asyncio.run(make())


def test_ids_that_were_told_do_not_change() -> None:
    answer = growing()
    answer.replace([5, 6])
    answer.add([7])
    answer.replace([5, 6, 7, 8])
    assert answer.ids == array("I", [5, 6, 7, 8])
    for other in ([5, 6, 9, 8, 1], [5, 6]):
        with pytest.raises(ReplyFault, match="differ"):
            answer.replace(other)
    for bad in ([-1], [1 << 40]):
        with pytest.raises(ReplyFault, match="no id"):
            answer.add(bad)


# whole streams, as the servers send them

ANSWER = [*range(10, 30), 2]
REQUEST = Request(prompt_ids=[5, 6, 7], limit=100, sampling=Sampling(), stop_ids=(2,), tag="t")


def sse(said: Any, compact: bool = True) -> bytes:
    return b"data: " + json.dumps(said, separators=(",", ":") if compact else None).encode() + b"\n\n"


def sglang(ids: list[int], tokens: int, finish: Any = None, **meta: Any) -> Any:
    counts = {"prompt_tokens": 3, "completion_tokens": tokens, "finish_reason": finish, "cached_tokens": 1}
    return {"text": 'say "output_ids":[9]' * tokens, "output_ids": ids, "meta_info": counts | meta}


STOP = {"type": "stop", "matched": 2}
ENDS = [1, 2, 3, 9, 9, 20]


def cumulative(compact: bool) -> list[bytes]:
    return [sse(sglang(ANSWER[:n], n), compact) for n in ENDS] + [sse(sglang(ANSWER, 21, STOP), compact)]


def incremental() -> list[bytes]:
    pieces = zip([0, *ENDS], ENDS, strict=False)
    return [sse(sglang(ANSWER[a:b], b)) for a, b in pieces] + [sse(sglang(ANSWER[20:], 21, STOP))]


def vllm(ids: list[int] | None, reason: str | None = None) -> Any:
    return {"choices": [{"finish_reason": reason, "stop_reason": None, "token_ids": ids}], "usage": None}


def vllm_events() -> list[bytes]:
    pieces = zip([0, *ENDS], ENDS, strict=False)
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 21}}
    return [sse(vllm(ANSWER[a:b])) for a, b in pieces] + [sse(vllm(ANSWER[20:], "stop")), sse(usage)]


DONE = [b"data: [DONE]\n\n"]


class Streaming:
    """A server that answers with events; ``asked`` holds the bodies that it got and whose connection brought them."""

    def __init__(self, events: list[bytes], pause: float = 0.0, hangs: bool = False) -> None:
        self.events = events
        self.asked: list[tuple[Any, Any]] = []
        self._pause = pause
        self._hangs = hangs

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((await request.json(), request.transport))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in self.events:
            await response.write(event)
            await asyncio.sleep(self._pause)
        if self._hangs:
            await asyncio.sleep(60)
        return response


def streamed(kind: str, server: Streaming, times: int = 1) -> tuple[list[Reply], list[list[int]]]:
    heard: list[list[int]] = []

    async def call(url: str) -> list[Reply]:
        engine: Engine = SGLang(Http("sglang", url)) if kind == "sglang" else VLLM(Http("vllm", url), "m")
        try:
            return [await engine.generate(REQUEST, lambda ids: heard.append(list(ids))) for _ in range(times)]
        finally:
            await engine.close()

    return against(server.answer, call), heard


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("sglang", cumulative(True) + DONE),
        ("sglang", cumulative(False) + DONE),
        ("sglang", cumulative(True)),
        ("sglang", incremental() + DONE),
        ("sglang", [sse(sglang(ANSWER, 21, STOP)), *DONE]),
        ("sglang", [b": a comment\n\n", sse({"id": "x"}), *cumulative(True), *DONE]),
        ("vllm", vllm_events() + DONE),
        ("vllm", vllm_events()),
        ("vllm", [sse(vllm(None)), *vllm_events(), *DONE]),
    ],
)
def test_a_stream_gives_the_whole_answer_and_its_beginnings(kind: str, events: list[bytes]) -> None:
    (reply,), heard = streamed(kind, Streaming(events))
    assert (reply.output_ids, reply.finish) == (ANSWER, Finish.STOP)
    assert (reply.prompt_tokens, reply.completion_tokens) == (3, 21)
    assert heard[-1] == ANSWER and all(ids == ANSWER[: len(ids)] for ids in heard)
    assert len(events) < 5 or {len(ids) for ids in heard} == {*ENDS, 21}


def test_ids_that_change_under_way_are_not_believed() -> None:
    changed = [sse(sglang([8, *ANSWER[1:]], 21, STOP)), *DONE]
    with pytest.raises(ReplyFault, match="differ"):
        streamed("sglang", Streaming(cumulative(True)[:-1] + changed))


@pytest.mark.parametrize(("kind", "events"), [("sglang", cumulative(True)), ("vllm", vllm_events())])
def test_a_stream_that_ends_in_its_middle_is_no_answer(kind: str, events: list[bytes]) -> None:
    with pytest.raises(TransportFault, match="after 20 ids"):
        streamed(kind, Streaming(events[:6] + DONE))


def test_a_request_that_is_given_up_in_the_queue_after_it_ran_keeps_its_beginning() -> None:
    """SGLang then leaves the prompt's tokens out, and with incremental streaming repeats the last id."""
    abort = {"type": "abort", "message": "Abort in waiting queue"}
    for events, last in ((cumulative(True)[:6], ANSWER[:20]), (incremental()[:6], ANSWER[19:20])):
        said = sglang(last, 20, abort)
        del said["meta_info"]["prompt_tokens"]

        async def use(url: str, events: list[bytes] = events, said: Any = said) -> Reply:
            engine = SGLang(Http("sglang", url))
            engine._aborted.add(REQUEST.tag)
            try:
                return await engine.generate(REQUEST, lambda _: None)
            finally:
                await engine.close()

        reply = against(Streaming([*events, sse(said), *DONE]).answer, use)
        assert (reply.finish, reply.output_ids) == (Finish.ABORT, ANSWER[:20])
        assert (reply.prompt_tokens, reply.completion_tokens) == (3, 20)


@pytest.mark.parametrize(
    ("kind", "events", "where"),
    [("sglang", cumulative(True), "sampling_params"), ("vllm", vllm_events(), None)],
)
def test_the_server_is_asked_for_events_as_fast_as_it_generates(
    kind: str, events: list[bytes], where: str | None
) -> None:
    server = Streaming(events + DONE, pause=0.02)
    streamed(kind, server, times=2)
    (first, one), (second, other) = server.asked
    assert (first[where] if where else first)["stream_interval"] == FIRST_INTERVAL
    # 20 tokens in 0.12 s at most, and on no machine in 20 s
    assert 1 < (second[where] if where else second)["stream_interval"] < 170
    assert one is other, "the connection was not used again"


@pytest.mark.parametrize(("kind", "events"), [("sglang", cumulative(True)), ("vllm", vllm_events())])
def test_a_server_that_does_not_end_its_stream_keeps_nobody(
    kind: str, events: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftmill.engines.http.END_SECONDS", 0.05)
    (reply, again), _ = streamed(kind, Streaming(events, hangs=True), times=2)
    assert reply.output_ids == again.output_ids == ANSWER


def test_a_fault_of_ours_while_hearing_is_no_fault_of_the_server() -> None:
    def hear(_: Any) -> None:
        raise KeyError("ours")

    async def use(url: str) -> None:
        engine = SGLang(Http("sglang", url))
        try:
            with pytest.raises(KeyError, match="ours"):
                await engine.generate(REQUEST, hear)
        finally:
            await engine.close()

    against(Streaming(cumulative(True) + DONE).answer, use)


@given(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b" ")), max_size=6), st.data())
def test_lines_are_the_same_in_whatever_pieces_they_come(lines: list[bytes], data: st.DataObject) -> None:
    whole, splitter, found = b"".join(line + b"\n" for line in lines), _Lines(), []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        found += splitter.of(whole[:size])
        whole = whole[size:]
    assert found == lines


def test_an_event_may_be_larger_than_what_may_wait_of_a_stream() -> None:
    long = [10 + n % 9_000 for n in range(60_000)] + [2]
    told = [sglang(long[:end], end, STOP if end == len(long) else None) for end in (1, 50_000, len(long))]
    assert len(sse(told[1])) > 2 * STREAM_BYTES
    (reply,), heard = streamed("sglang", Streaming([*map(sse, told), *DONE]))
    assert reply.output_ids == long and [len(ids) for ids in heard] == [1, 50_000, len(long)]
