"""The sides of a comparison before anything is asked of them."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.compare import setting as module
from draftmill.compare.setting import Setting, of_spec, refuse_other_vocabulary, room
from draftmill.engines.protocol import Engine, Identity
from draftmill.errors import RunError
from draftmill.recipe import EngineSpec, as_engine
from tests.mill.scripted import ScriptedEngine


async def fine(engine: Engine) -> None:
    pass


def side(text: str, **identity: Any) -> Setting:
    made = of_spec(text, EngineSpec.model_validate(as_engine(text)), Path("m.gguf"), fine)
    made.identity = msgspec.structs.replace(made.identity, **identity)
    return made


def test_prompts_get_what_the_smaller_context_leaves() -> None:
    assert room(side("embedded:context=300"), side("http://h:1", context=1000), 100) == 200
    assert room(side("http://h:1"), side("http://h:2"), 100) > 1 << 30
    with pytest.raises(RunError, match="a limit of 300 tokens leaves a prompt nothing of a context of 300"):
        room(side("embedded:context=300"), side("http://h:1"), 300)


def test_other_vocabularies_are_refused() -> None:
    refuse_other_vocabulary(side("http://h:1", vocab_size=5), side("http://h:2"))
    with pytest.raises(RunError, match=r"http://h:1 has a vocabulary of 5 ids and http://h:2 one of 6"):
        refuse_other_vocabulary(side("http://h:1", vocab_size=5), side("http://h:2", vocab_size=6))


def test_a_side_is_looked_at_once_and_closed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[ScriptedEngine] = []
    looked_at: list[Engine] = []

    async def connect(spec: EngineSpec, **_: object) -> ScriptedEngine:
        engines.append(ScriptedEngine(name="s", context=77))
        return engines[-1]

    async def check(engine: Engine) -> None:
        looked_at.append(engine)

    monkeypatch.setattr(module, "connect", connect)
    made = of_spec("http://h:1", EngineSpec(url="http://h:1"), None, check)

    async def use() -> None:
        await made.introduce()
        async with made.opened():
            pass

    asyncio.run(use())
    assert made.context == 77 and made.identity == Identity("scripted", "s", context=77)
    assert [engine.closed for engine in engines] == [True, True] and looked_at == engines[:1]
