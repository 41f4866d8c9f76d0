"""What every engine must do, checked on a real server: a test module subclasses ``Contract`` and says where it is."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import pytest

from draftmill.engines.check import check_reply
from draftmill.engines.protocol import Engine, Reply, Request
from draftmill.errors import EngineError, PromptFault
from draftmill.recipe import Sampling
from draftmill.records import Finish

T = TypeVar("T")

VOCAB = 49_152
EOS = 2  # <|im_end|>
STOP_IDS = (2, 0)
TEXT = "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n"
PROMPT = [1, 4093, 198, 36218, 15876, 2, 198, 1, 520, 9531, 198]
GREEDY = Sampling(temperature=0.0)

# What transformers gives greedily for PROMPT in float32, and its log-probabilities; the two likeliest ids are nowhere
# nearer than 0.09, so that every right float32 engine gives these very ids.
ANSWER = [57, 5248, 18948, 288, 919, 469, 41141, 30, 339, 5248, 1535, 288, 724]
ANSWER += [346, 351, 469, 4833, 18683, 30, 1812, 6633, 346, 1535, 1834, 47, EOS]
SCORES = [
    -2.0968,
    -0.2544,
    -1.7159,
    -0.3732,
    -1.5802,
    -1.0034,
    -0.044,
    -0.6774,
    -1.2495,
    -0.3242,
    -1.5234,
    -0.0664,
    -0.8897,
]
SCORES += [
    -0.9789,
    -1.436,
    -0.8253,
    -1.7541,
    -0.5695,
    -0.41,
    -1.7909,
    -0.1593,
    -0.1358,
    -0.5446,
    -0.05,
    -0.1385,
    -0.7825,
]


class Server(NamedTuple):
    """Where a server runs and how its client is made."""

    kind: str
    connect: Callable[[], Awaitable[Engine]]

    def run(self, use: Callable[[Engine], Awaitable[T]]) -> T:
        async def body() -> T:
            engine = await self.connect()
            try:
                return await use(engine)
            finally:
                await engine.close()

        return asyncio.run(body())

    def generate(self, request: Request) -> Reply:
        return self.run(lambda engine: engine.generate(request))


def ask(prompt: list[int] = PROMPT, limit: int = 8, sampling: Sampling = GREEDY, **changed: Any) -> Request:
    fields = {"stop_ids": STOP_IDS, "tag": f"contract-{ask.count}"} | changed  # type: ignore[attr-defined]
    ask.count += 1  # type: ignore[attr-defined]
    return Request(prompt_ids=prompt, limit=limit, sampling=sampling, **fields)


ask.count = 0  # type: ignore[attr-defined]  # servers refuse a tag that is in use


def raw_ids(kind: str, body: bytes) -> list[int]:
    """The generated ids in a server's own words."""
    said = json.loads(body)
    match kind:
        case "sglang":
            return said["output_ids"]
        case "vllm":
            return said["choices"][0]["token_ids"] if "choices" in said else []  # it is asked for its models before
        case _:
            return said["tokens"]


class Contract:
    """Subclasses give a ``server`` fixture."""

    penalties = True  # presence and frequency penalties are taken
    any_stop_id = True  # stop ids of the request end an answer
    checks_ids = True  # ids outside the vocabulary are refused by the server
    float32 = True  # the server computes in float32, unquantised
    streams = True  # beginnings of answers are told, and an abort gives one

    def test_it_says_what_it_is(self, server: Server) -> None:
        identity = server.run(lambda engine: engine.identify())
        assert identity.kind == server.kind
        assert identity.version and identity.model
        assert identity.context and identity.max_prompt
        assert identity.max_prompt < identity.context
        assert identity.kv_tokens and identity.kv_tokens >= identity.context
        assert identity.vocab_size in (None, VOCAB)

    def test_the_ids_are_the_servers_own_and_hold_the_end(self, server: Server) -> None:
        async def use(engine: Engine) -> tuple[Reply, list[bytes]]:
            bodies: list[bytes] = []
            http = engine._http  # type: ignore[attr-defined]
            send = http._send

            async def record(*args: Any, **named: Any) -> tuple[int, bytes]:
                status, body = await send(*args, **named)
                bodies.append(body)
                return status, body

            http._send = record
            return await engine.generate(request), bodies

        request = ask(limit=200)
        reply, bodies = server.run(use)
        assert reply.output_ids == [token for body in bodies for token in raw_ids(server.kind, body)]
        assert reply.finish is Finish.STOP
        assert reply.output_ids[-1] == EOS and EOS not in reply.output_ids[:-1]
        assert check_reply(request, reply, VOCAB) is None

    def test_no_stop_of_its_own_goes_unknown(self, server: Server) -> None:
        own = server.run(lambda engine: engine.own_stops([0, 1, EOS, 198]))
        assert own == ([0, EOS] if server.kind == "llamacpp" else [])

    def test_the_limit_is_reached(self, server: Server) -> None:
        for limit in (1, 5):
            reply = server.generate(ask(limit=limit))
            assert (reply.finish, len(reply.output_ids), reply.completion_tokens) == (Finish.LENGTH, limit, limit)
            assert reply.prompt_tokens == len(PROMPT)

    def test_every_sampling_value_is_taken(self, server: Server) -> None:
        penalties = {"presence_penalty": 0.1, "frequency_penalty": 0.1} if self.penalties else {}
        odd = Sampling(temperature=0.7, top_p=0.9, top_k=20, min_p=0.05, repetition_penalty=1.1, **penalties)
        for sampling in (Sampling(), odd):
            for seed in (None, 7, 2**64 - 1):
                request = ask(limit=6, sampling=sampling, seed=seed)
                assert check_reply(request, server.generate(request), VOCAB) is None

    def test_sampling_changes_what_is_drawn(self, server: Server) -> None:
        async def use(engine: Engine) -> list[Reply]:
            hot = Sampling(temperature=1.5)
            return list(await asyncio.gather(*(engine.generate(ask(limit=6, sampling=hot, seed=i)) for i in range(4))))

        assert len({tuple(reply.output_ids) for reply in server.run(use)}) > 1

    def test_top_k_of_one_is_greedy(self, server: Server) -> None:
        only = Sampling(temperature=1.0, top_k=1)
        assert server.generate(ask(sampling=only)).output_ids == server.generate(ask()).output_ids

    def test_a_stop_id_ends_the_answer_and_stays_in_it(self, server: Server) -> None:
        free = server.generate(ask()).output_ids
        stop = free[3]
        assert stop not in free[:3]
        for limit in (8, 4):  # and at the very limit
            request = ask(limit=limit, stop_ids=(*STOP_IDS, stop))
            reply = server.generate(request)
            if self.any_stop_id:
                assert reply.output_ids == free[:4]
                assert (reply.finish, reply.matched_stop) == (Finish.STOP, stop)
                assert check_reply(request, reply, VOCAB) is None
            elif limit > 4:
                assert check_reply(request, reply, VOCAB) is not None  # missed, and noticed

    def test_the_context_is_what_the_server_says(self, server: Server) -> None:
        identity = server.run(lambda engine: engine.identify())
        assert identity.context and identity.max_prompt
        filler = ([18948, 288] * identity.context)[: identity.context]  # the model goes on repeating it
        near = filler[: identity.context - 8]
        fits = ask(near, limit=8)
        assert check_reply(fits, server.generate(fits), VOCAB) is None
        with pytest.raises(PromptFault):
            server.generate(ask(near, limit=9))
        longest = ask(filler[: identity.max_prompt], limit=1)
        assert check_reply(longest, server.generate(longest), VOCAB) is None
        with pytest.raises(PromptFault):
            server.generate(ask(filler[: identity.max_prompt + 1], limit=1))
        with pytest.raises(PromptFault):
            server.generate(ask(filler * 2, limit=1))

    def test_ids_that_are_none(self, server: Server) -> None:
        bad = [[], [5, -1]] + ([[5, VOCAB], [5, 10**9]] if self.checks_ids else [])
        for prompt in bad:
            with pytest.raises(PromptFault):
                server.generate(ask(prompt))

    def test_its_load_shows_the_work(self, server: Server) -> None:
        async def use(engine: Engine) -> None:
            idle = await engine.load()
            assert (idle.running, idle.queued) == (0, 0)
            work = [asyncio.ensure_future(engine.generate(ask(limit=150, sampling=Sampling()))) for _ in range(3)]
            seen = 0
            while not all(task.done() for task in work):
                load = await engine.load()
                seen = max(seen, load.running + load.queued)
                await asyncio.sleep(0.1)
            await asyncio.gather(*work)
            assert seen >= 2

        server.run(use)

    def test_scores_agree_with_a_greedy_answer(self, server: Server) -> None:
        async def use(engine: Engine) -> None:
            answer = list((await engine.generate(ask(limit=6))).output_ids)
            scores = (await engine.score(PROMPT + answer, len(PROMPT))).logprobs
            assert len(scores) == len(answer)
            assert all(-20 < score <= 0 for score in scores)
            for other in (answer[0] + 1, EOS, 0, 198, 28):  # the greedy id is the likeliest of all
                assert (await engine.score([*PROMPT, other], len(PROMPT))).logprobs[0] < scores[0]
            late = (await engine.score(PROMPT + answer, len(PROMPT) + 4)).logprobs
            assert late == pytest.approx(scores[4:], abs=0.05)
            whole = await engine.score(PROMPT, 1)
            assert len(whole.logprobs) == len(PROMPT) - 1 and whole.top is None

        server.run(use)

    def test_the_likeliest_ids_are_told_in_their_order(self, server: Server) -> None:
        ids = [*PROMPT, *ANSWER[:4], 0, EOS]  # an id that nobody expects, too
        scored = server.run(lambda engine: engine.score(ids, len(PROMPT), top=20))
        assert scored.top and len(scored.top) == len(scored.logprobs) == 6
        for token, logprob, top in zip(ids[len(PROMPT) :], scored.logprobs, scored.top, strict=True):
            assert len(top) == 20 and list(top.values()) == sorted(top.values(), reverse=True)
            assert 0.1 < sum(map(math.exp, top.values())) <= 1.0001
            assert top.get(token, logprob) == pytest.approx(logprob, abs=0.001)
            assert (token in top) is (logprob >= min(top.values()))
        if self.float32:
            assert [next(iter(top)) for top in scored.top[:4]] == ANSWER[:4]
        assert 0 not in scored.top[4]

    def test_it_computes_what_the_model_says(self, server: Server) -> None:
        tolerance = 0.005 if self.float32 else 0.5
        scores = server.run(lambda engine: engine.score(PROMPT + ANSWER, len(PROMPT)))
        assert scores.logprobs == pytest.approx(SCORES, abs=tolerance)
        if self.float32:
            assert server.generate(ask(limit=60)).output_ids == ANSWER

    def test_its_tokenizer_parses_special_tokens_and_adds_none(self, server: Server) -> None:
        assert server.run(lambda engine: engine.tokenize(TEXT)) == PROMPT
        plain = server.run(lambda engine: engine.tokenize("hi"))
        assert plain and 1 not in plain and EOS not in plain

    def test_many_at_once_all_come_back(self, server: Server) -> None:
        async def use(engine: Engine) -> list[Reply]:
            return list(await asyncio.gather(*(engine.generate(ask(limit=2)) for _ in range(120))))

        assert {len(reply.output_ids) for reply in server.run(use)} == {2}

    def test_a_call_that_is_dropped_frees_the_server(self, server: Server) -> None:
        async def use(engine: Engine) -> None:
            story = await engine.tokenize(TEXT.replace("Say hi", "Tell a very long story"))
            assert story
            work = [asyncio.ensure_future(engine.generate(ask(story, limit=400))) for _ in range(3)]
            await asyncio.sleep(0.5)
            assert not any(task.done() for task in work)
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            for _ in range(100):
                if (await engine.load()).running == 0:
                    return
                await asyncio.sleep(0.1)
            raise AssertionError("the server still generates for nobody")

        server.run(use)

    def test_a_streamed_answer_is_the_whole_one(self, server: Server) -> None:
        heard: list[list[int]] = []
        request = ask(limit=200)
        reply = server.run(lambda engine: engine.generate(request, lambda ids: heard.append(list(ids))))
        assert check_reply(request, reply, VOCAB) is None
        assert reply.finish is Finish.STOP and reply.output_ids[-1] == EOS
        if self.float32:
            assert reply.output_ids == ANSWER
        if self.streams:
            assert heard and heard[-1] == reply.output_ids
        for ids in heard:
            assert ids == reply.output_ids[: len(ids)]

    def test_an_abort_gives_the_beginning_and_a_continuation_goes_on(self, server: Server) -> None:
        async def use(engine: Engine) -> None:
            story = await engine.tokenize(TEXT.replace("Say hi", "Tell a very long story"))
            assert story
            request = ask(story, limit=400)
            call = asyncio.ensure_future(engine.generate(request, lambda _: None))
            await asyncio.sleep(2.0)
            assert await engine.abort(request.tag) is self.streams
            if not self.streams:
                call.cancel()
                return
            reply = await asyncio.wait_for(call, 30)
            begun = list(reply.output_ids)
            assert (reply.finish, check_reply(request, reply, VOCAB)) == (Finish.ABORT, None)
            assert 0 < len(begun) == reply.completion_tokens < 400
            rest = ask(story + begun, limit=8)
            assert check_reply(rest, await engine.generate(rest), VOCAB) is None

        server.run(use)

    def test_an_abort_of_what_is_not_there_changes_nothing(self, server: Server) -> None:
        async def use(engine: Engine) -> Reply:
            await engine.abort("nobody-knows-this")
            return await engine.generate(ask(limit=3))

        assert server.run(use).completion_tokens == 3

    def test_only_engine_errors_leave_it(self, server: Server) -> None:
        async def use(engine: Engine) -> None:
            with pytest.raises(EngineError):
                await engine.score([6] * 40_000, 39_999)

        server.run(use)
