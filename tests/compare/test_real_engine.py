"""The real llama.cpp engine against itself, with other types of its KV cache, and with coarser weights."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from draftmill.compare.comparison import Comparison, compare
from draftmill.compare.effects import deciding
from draftmill.compare.hear import Plan, Question, hear
from draftmill.compare.verdict import TOLERANCE, Effect, Verdict
from draftmill.engines import connect
from draftmill.engines.protocol import Engine, Identity
from draftmill.recipe import EngineSpec
from draftmill.render import tokenizer as tokenizers
from tests.cli.command import questions
from tests.conftest import EmbeddedServer

pytestmark = pytest.mark.embedded

PROMPTS, TOKENS = 8, 8  # few: the engine scores an id a call

Opened = Callable[[], AbstractAsyncContextManager[Engine]]


@pytest.fixture(scope="module")
def asked(tokenizer_folder: Path) -> Plan:
    loaded = tokenizers.load(str(tokenizer_folder))
    texts = [
        f"<|im_start|>user\n{row['messages'][0]['content']}<|im_end|>\n<|im_start|>assistant\n"
        for row in questions(PROMPTS)
    ]
    prompts = [Question(str(n), ids) for n, ids in enumerate(loaded.encode(texts))]
    return Plan(prompts, TOKENS, (2, 0), loaded.size)


@pytest.fixture(scope="module")
def compared(asked: Plan, embedded_server: EmbeddedServer, small_model: Path) -> Callable[..., Comparison]:
    """The shared server, of f16, against one with these options."""

    def run(tolerance: float = TOLERANCE, **options: str) -> Comparison:
        spec = EngineSpec.model_validate({"kind": "embedded", "slots": 4, "context": 512, **options})

        @asynccontextmanager
        async def shared() -> AsyncIterator[Engine]:
            engine = embedded_server.client()
            try:
                yield engine
            finally:
                await engine.close()

        @asynccontextmanager
        async def own() -> AsyncIterator[Engine]:
            engine = await connect(spec, gguf=small_model)
            try:
                yield engine
            finally:
                await engine.close()

        heard = asyncio.run(hear(shared, own if options else shared, asked, lambda *_: None))
        sides = (("f16", Identity("llamacpp", "a")), (str(options), Identity("llamacpp", "b")))
        return compare(asked, heard, sides, tolerance=tolerance, calls=None, seconds=0.0)

    return run


def by_name(done: Comparison) -> dict[str, Effect]:
    return {effect.name: effect for effect in done.effects}


def test_settings_are_told_apart_and_ordered(compared: Callable[..., Comparison]) -> None:
    itself, finer, coarser, weights = (
        compared(),
        compared(kv="q8_0"),
        compared(kv="q4_0"),
        compared(weights="q4_0"),
    )
    assert (itself.verdict, itself.passed) == (Verdict.NOISE, True), itself.effects
    assert not deciding(itself.effects).excess.excludes_zero()
    for name in ("refused", "log-probability", "KL"):
        found = [by_name(done)[name] for done in (itself, finer, coarser, weights)]
        excess = [effect.excess.value for effect in found]
        assert excess == sorted(excess), (name, excess)
        assert all(effect.excess.low > 0 for effect in found[2:]), (name, found)
    assert coarser.verdict is Verdict.BEYOND and weights.verdict is Verdict.BEYOND
    assert not coarser.passed and not weights.passed
    assert finer.verdict is not Verdict.BEYOND, finer.effects
    assert all(done.says and done.advice for done in (itself, finer, coarser, weights))
