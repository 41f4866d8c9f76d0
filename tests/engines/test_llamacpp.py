"""The contract on the embedded llama.cpp server, and what is llama.cpp's own."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from draftmill.engines import connect
from draftmill.engines.check import check_reply
from draftmill.engines.http import Http
from draftmill.engines.llamacpp import LlamaCpp
from draftmill.engines.protocol import Engine
from draftmill.errors import SetupFault
from draftmill.recipe import EngineSpec, Sampling
from draftmill.render.tokenizer import load
from tests.conftest import EmbeddedServer
from tests.engines.contract import EOS, PROMPT, VOCAB, Contract, Server, ask

pytestmark = pytest.mark.embedded


@pytest.fixture
def server(embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("LLAMA_KEY", embedded_server.key)
    spec = EngineSpec(url=embedded_server.url, api_key_env="LLAMA_KEY")
    return Server("llamacpp", lambda: connect(spec))


class TestLlamaCpp(Contract):
    penalties = False
    any_stop_id = False
    float32 = False
    streams = False

    def test_penalties_that_count_the_prompt_are_refused(self, server: Server) -> None:
        for sampling in (Sampling(presence_penalty=0.5), Sampling(frequency_penalty=-0.5)):
            with pytest.raises(SetupFault, match="penalties"):
                server.generate(ask(sampling=sampling))

    def test_a_call_that_is_dropped_frees_the_server(self, server: Server) -> None:
        """Not here at once: the slot goes on to the end of its answer, and is free then."""

        async def use(engine: Engine) -> None:
            dropped = asyncio.ensure_future(engine.generate(ask(limit=40)))
            await asyncio.sleep(0.2)
            dropped.cancel()
            await asyncio.gather(dropped, return_exceptions=True)
            assert (await engine.generate(ask(limit=2))).completion_tokens == 2

        server.run(use)

    def test_ids_of_characters_that_are_not_whole_are_all_there(self, server: Server, small_model: Path) -> None:
        """At this temperature answers are full of broken characters; a streamed reply would leave their ids out."""
        tokenizer = load(str(small_model))

        async def use(engine: Engine) -> None:
            wild = Sampling(temperature=3.0)
            requests = [ask(limit=40, sampling=wild, seed=seed) for seed in range(12)]
            replies = await asyncio.gather(*map(engine.generate, requests))
            for request, reply in zip(requests, replies, strict=True):
                assert check_reply(request, reply, VOCAB) is None
            texts = [tokenizer.decode(reply.output_ids) for reply in replies]
            assert any("\ufffd" in text for text in texts), "no answer holds a broken character: this shows nothing"

        server.run(use)

    def test_a_seed_is_honoured(self, embedded_server: EmbeddedServer) -> None:
        async def use() -> None:
            engine = embedded_server.client(prompt_cache=False)
            drawn = [
                (await engine.generate(ask(limit=12, sampling=Sampling(), seed=seed))).output_ids for seed in (1, 1, 2)
            ]
            assert drawn[0] == drawn[1] != drawn[2]
            await engine.close()

        asyncio.run(use())

    def test_scores_are_the_servers_probabilities_step_by_step(self, embedded_server: EmbeddedServer) -> None:
        async def use() -> None:
            engine = embedded_server.client()
            answer = (await engine.generate(ask(limit=5))).output_ids
            ids = [*PROMPT, *answer, EOS]  # an unlikely end too
            scores = (await engine.score(ids, len(PROMPT))).logprobs
            steps = [await _distribution(embedded_server, ids[:at]) for at in range(len(PROMPT), len(ids))]
            for token, score, step in zip(ids[len(PROMPT) :], scores, steps, strict=True):
                assert score == pytest.approx(step[token], abs=0.02)
                assert score <= max(step.values()) + 0.02
            assert all(max(step, key=step.__getitem__) == token for token, step in zip(answer, steps, strict=False))
            await engine.close()

        asyncio.run(use())

    def test_ids_within_a_character_have_probabilities_too(
        self, embedded_server: EmbeddedServer, small_model: Path
    ) -> None:
        async def use() -> None:
            engine = embedded_server.client()
            parrot = load(str(small_model)).encode(["🦜"])[0]
            assert len(parrot) == 3
            scored = await engine.score([*PROMPT, *parrot], len(PROMPT), top=5)
            for at, (token, score) in enumerate(zip(parrot, scored.logprobs, strict=True)):
                step = await _distribution(embedded_server, [*PROMPT, *parrot[:at]], forced=57)
                assert score == pytest.approx(step[token], abs=0.02)
            assert scored.top and all(len(top) == 5 for top in scored.top)
            await engine.close()

        asyncio.run(use())

    def test_every_sampling_field_was_understood(self, embedded_server: EmbeddedServer) -> None:
        """The server repeats its settings: none of ours may have been ignored."""
        from draftmill.engines.llamacpp import _sampling

        odd = Sampling(temperature=0.7, top_p=0.9, top_k=20, min_p=0.05, repetition_penalty=1.1)
        sent = _sampling(odd, 99) | {"prompt": PROMPT, "n_predict": 1, "seed": 5}
        settings = asyncio.run(_raw(embedded_server, sent))["generation_settings"]
        kept = {name: settings[name] for name in sent if name in settings}
        missing = sent.keys() - kept.keys()
        assert missing == {"prompt", "return_tokens"}
        for name, value in kept.items():
            assert value == (pytest.approx(sent[name]) if isinstance(sent[name], float) else sent[name]), name

    def test_a_wrong_key(self, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        async def use() -> None:
            engine = LlamaCpp(Http("llamacpp", embedded_server.url, "wrong-key"))
            with pytest.raises(SetupFault, match="401") as caught:
                await engine.generate(ask())
            assert "api_key_env" in caught.value.advice and "wrong-key" not in str(caught.value)
            await engine.close()
            with pytest.raises(SetupFault, match="wants an API key") as caught:
                await connect(EngineSpec(url=embedded_server.url))
            assert "api_key_env" in caught.value.advice
            monkeypatch.setenv("LLAMA_KEY", "wrong-key")
            with pytest.raises(SetupFault, match=r"\$LLAMA_KEY is refused"):
                await connect(EngineSpec(url=embedded_server.url, api_key_env="LLAMA_KEY"))

        asyncio.run(use())


async def _raw(server: EmbeddedServer, body: dict[str, object]) -> dict[str, object]:
    headers = {"Authorization": f"Bearer {server.key}"}
    url = f"{server.url}/completion"
    async with aiohttp.ClientSession(headers=headers) as session, session.post(url, json=body) as response:
        return json.loads(await response.read())


async def _distribution(server: EmbeddedServer, ids: list[int], forced: int | None = None) -> dict[int, float]:
    bias = [] if forced is None else [[forced, 1e9]]
    body = {"prompt": ids, "n_predict": 1, "n_probs": 49_152, "temperature": 0.0, "logit_bias": bias}
    said = await _raw(server, body)
    return {entry["id"]: entry["logprob"] for entry in said["completion_probabilities"][0]["top_logprobs"]}
