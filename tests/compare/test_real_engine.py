"""The real llama.cpp engine against itself, with other types of its KV cache, and with coarser weights."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from draftmill.compare.comparison import Comparison, compare
from draftmill.compare.effects import deciding
from draftmill.compare.hear import Plan, Question, hear
from draftmill.compare.setting import Setting, of_spec
from draftmill.compare.verdict import Effect, Verdict
from draftmill.engines.protocol import Engine
from draftmill.recipe import EngineSpec
from draftmill.render import tokenizer as tokenizers
from tests.cli.command import KEY, questions
from tests.conftest import SLOTS, EmbeddedServer

pytestmark = pytest.mark.embedded

PROMPTS, TOKENS = 8, 3  # few: the engine scores an id a call
TOLERANCE = (
    0.07  # between the types that are compared; so short an answer of so small a model differs by more than most
)


@pytest.fixture
def compared(
    tokenizer_folder: Path, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Comparison]:
    """The embedded engine as it is against one with these options. The first one stands already, all the time."""
    loaded = tokenizers.load(str(tokenizer_folder))
    asked = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    prompts = loaded.encode([asked.format(row["messages"][0]["content"]) for row in questions(PROMPTS)])
    plan = Plan([Question(str(n), ids) for n, ids in enumerate(prompts)], TOKENS, (2, 0), loaded.size)

    async def nothing(engine: Engine) -> None:
        pass

    def setting(**options: object) -> Setting:
        return of_spec(str(options), EngineSpec.model_validate(options), embedded_server.gguf, nothing)

    monkeypatch.setenv(KEY, embedded_server.key)

    def run(**options: str) -> Comparison:
        a = setting(url=embedded_server.url, api_key_env=KEY)
        b = setting(kind="embedded", slots=SLOTS, context=256, **options)
        heard = asyncio.run(hear(a.opened, b.opened, plan, lambda *_: None))
        sides = ((a.name, a.identity), (b.name, b.identity))
        return compare(plan, heard, sides, tolerance=TOLERANCE, calls=None, seconds=0.0)

    return run


def by_name(done: Comparison) -> dict[str, Effect]:
    return {effect.name: effect for effect in done.effects}


def test_settings_are_told_apart_ordered_and_judged(compared: Callable[..., Comparison]) -> None:
    settings = ({}, {"kv": "q8_0"}, {"kv": "q4_0"}, {"weights": "q4_0"})
    done = [compared(**options) for options in settings]
    assert not deciding(done[0].effects).excess.excludes_zero()
    for name in ("refused", "log-probability", "KL"):
        found = [by_name(each)[name].excess for each in done]
        values = [excess.value for excess in found]
        assert values == sorted(values), (name, values)
        assert all(excess.low > 0 for excess in found[1:]), (name, found)
    verdicts = [each.verdict for each in done]
    assert verdicts == [Verdict.NOISE, Verdict.TOLERATED, Verdict.BEYOND, Verdict.BEYOND], [e.says for e in done]
    assert [each.passed for each in done] == [True, True, False, False]
    assert [each.b.identity.kv_dtype for each in done] == ["f16", "q8_0", "q4_0", "f16"]
    assert done[3].b.identity.weights == "Q4_0"
