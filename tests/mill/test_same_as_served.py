"""Our ids are what the server makes of the same conversation itself: its own template, its own tokenizer."""

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from draftmill import examples
from draftmill import recipe as recipes
from draftmill.engines.embedded import Embedded
from draftmill.engines.protocol import Request
from draftmill.recipe import Sampling
from draftmill.records import Conversation, SourceRow
from draftmill.render import tokenizer
from draftmill.render.template import ChatTemplate
from draftmill.sources import open_source

PROMPTS = 20
TOKENS = 16


def conversations() -> list[Conversation]:
    """Conversations of the quickstart without tools, which this model's template does not know."""
    base = examples.QUICKSTART
    recipe = recipes.load(base / "recipe.yaml")
    rows = (row for dataset in recipe.datasets for row in open_source(dataset, base).rows())
    plain = (r.conversation for r in rows if isinstance(r, SourceRow) and not r.conversation.tools)
    return list(islice((c for c in plain if all(m["role"] != "tool" for m in c.messages)), PROMPTS))


@pytest.mark.embedded
def test_the_server_answers_the_same_to_our_ids_and_to_its_own_rendering(small_model: Path) -> None:
    """Greedy, one slot, prompt cache off: with several, near-ties of a quantised model flip."""
    loaded = tokenizer.load(str(small_model))
    template = ChatTemplate(loaded, "2026-01-01")

    async def body() -> list[tuple[list[int], list[int]]]:
        engine = await Embedded.start(small_model, slots=1, context=1024, prompt_cache=False)
        pairs = []
        try:
            async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {engine.key}"}) as http:
                for conversation in conversations():
                    (ids,) = loaded.encode([template.text(conversation, {})])
                    request = Request(ids, TOKENS, Sampling(temperature=0.0), template.stop_ids, "t")
                    ours = (await engine.generate(request)).output_ids
                    pairs.append((ours, await by_text(http, engine.url, conversation.messages)))
        finally:
            await engine.close()
        return pairs

    pairs = asyncio.run(body())
    assert len(pairs) == PROMPTS
    for ours, theirs in pairs:
        assert ours == theirs


async def by_text(http: aiohttp.ClientSession, url: str, messages: list[dict[str, Any]]) -> list[int]:
    async with http.post(f"{url}/apply-template", json={"messages": messages}) as reply:
        prompt = (await reply.json())["prompt"]
    neutral = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}
    options = {"n_predict": TOKENS, "return_tokens": True, "cache_prompt": False}
    async with http.post(f"{url}/completion", json={"prompt": prompt, **options, **neutral}) as reply:
        ids: list[int] = (await reply.json())["tokens"]
        return ids
