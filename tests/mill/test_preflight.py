import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftmill.engines.voice import Passage
from draftmill.errors import RunError, StorageError
from draftmill.mill import preflight as preflights
from draftmill.mill.preflight import PROBES, Preflight, compare_tokenizer, raise_open_files, refuse_penalty_mixture
from draftmill.mill.voices import Voices
from draftmill.recipe import EngineSpec, Sampling
from draftmill.render import tokenizer
from tests.mill.scripted import ScriptedEngine


class Tokenizing(ScriptedEngine):
    """An engine whose tokenization a test gives."""

    def __init__(self, ids: dict[str, list[int]]) -> None:
        super().__init__(name="t")
        self._ids = ids

    async def tokenize(self, text: str) -> list[int] | None:
        return self._ids.get(text)


def compare(model: Path, ids: dict[str, list[int]], texts: list[str]) -> int:
    return asyncio.run(compare_tokenizer(Tokenizing(ids), tokenizer.load(str(model)), texts))


def test_equal_ids_are_counted_and_an_engine_that_cannot_tokenize_is_not(small_model: Path) -> None:
    loaded = tokenizer.load(str(small_model))
    ids = dict(zip(PROBES, loaded.encode(list(PROBES)), strict=True))
    assert compare(small_model, ids, list(PROBES)) == len(PROBES)
    assert compare(small_model, {}, list(PROBES)) == 0


def test_a_difference_is_shown_with_its_text(small_model: Path) -> None:
    text = "one two three four"
    (ids,) = tokenizer.load(str(small_model)).encode([text])
    theirs = [*ids[:2], 9999, *ids[3:]]
    with pytest.raises(RunError, match=r"after 'one two' \(token 2\) ours are \[.*\] ' three four', the engine's"):
        compare(small_model, {text: theirs}, [text])
    with pytest.raises(RunError, match="token 4"):
        compare(small_model, {text: [*ids, 5]}, [text])
    with pytest.raises(RunError, match="token 3"):
        compare(small_model, {text: [*ids[:3], 10**9]}, [text])  # an id that we cannot decode


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield soft, hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_limit_on_open_files_is_raised_where_connections_need_it(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    raise_open_files(10)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
    raise_open_files(400)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 656
    if hard != resource.RLIM_INFINITY:
        with pytest.raises(RunError, match="open files; the system allows"):
            raise_open_files(hard)


def test_a_penalty_is_not_mixed_over_kinds() -> None:
    both, penalty = {"vllm", "sglang"}, Sampling(repetition_penalty=1.1)
    refuse_penalty_mixture(both, [Sampling()])
    refuse_penalty_mixture({"vllm"}, [penalty])
    with pytest.raises(RunError, match="other tokens in sglang than in vllm"):
        refuse_penalty_mixture(both, [Sampling(), penalty])


def preflight_of(folder: Path, tokenizer_folder: Path, begun: bool = True) -> Preflight:
    return Preflight(
        gguf=None,
        logs=folder,
        tokenizer=tokenizer.load(str(tokenizer_folder)),
        stop_ids=[2],
        texts=[],
        samplings=[Sampling()],
        voices=Voices([Passage([1, 2, 3], 1)], 0.1, lambda *_: None),
        tell=lambda *_: None,
        kept=folder / "engines.json",
        begun=begun,
    )


def test_an_engine_that_comes_late_is_examined_against_all_before_it(
    tmp_path: Path, tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = {
        "http://a:1": ScriptedEngine(name="a", weights="v1"),
        "http://b:1": ScriptedEngine(name="b", weights="v1"),
        "http://c:1": ScriptedEngine(name="c", weights="v2"),
    }

    async def connect(spec: EngineSpec, **_: object) -> ScriptedEngine:
        return engines[spec.url or ""]

    monkeypatch.setattr(preflights, "connect", connect)
    preflight = preflight_of(tmp_path, tokenizer_folder)

    async def body() -> None:
        for url in ("http://a:1", "http://b:1"):
            assert (await preflight.take(EngineSpec(url=url))).engine is engines[url]
        with pytest.raises(RunError, match="a and c are not the same target: weights 'v1' and 'v2'"):
            await preflight.take(EngineSpec(url="http://c:1"))

    asyncio.run(body())
    assert [engine.closed for engine in engines.values()] == [False, False, True]
    later = [preflight_of(tmp_path, tokenizer_folder, begun) for begun in (True, False)]
    with pytest.raises(RunError, match="a and c are not the same target"):  # at the next start, where c is alone
        asyncio.run(later[0].take(EngineSpec(url="http://c:1")))
    asyncio.run(later[1].take(EngineSpec(url="http://c:1")))  # a gave no answer that could bind


def test_an_engine_is_closed_where_it_cannot_be_noted(
    tmp_path: Path, tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ScriptedEngine(name="a")

    async def connect(_: EngineSpec, **__: object) -> ScriptedEngine:
        return engine

    monkeypatch.setattr(preflights, "connect", connect)
    (tmp_path / "engines.json").mkdir()
    with pytest.raises(StorageError, match=r"engines\.json: cannot be written"):
        asyncio.run(preflight_of(tmp_path, tokenizer_folder).take(EngineSpec(url="http://a:1")))
    assert engine.closed


@pytest.mark.parametrize(("own", "told"), [([], False), ([2, 3], False), ([3], True)])
def test_an_engine_that_does_not_end_at_a_stop_id_is_told(
    own: list[int], told: bool, tmp_path: Path, tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ending(ScriptedEngine):
        async def own_stops(self, candidates: list[int]) -> list[int]:
            assert 2 in candidates
            return own

    async def connect(_: EngineSpec, **__: object) -> ScriptedEngine:
        return Ending(name="a")

    monkeypatch.setattr(preflights, "connect", connect)
    heard: list[tuple[str, str, str]] = []
    preflight = Preflight(
        gguf=None,
        logs=tmp_path,
        tokenizer=tokenizer.load(str(tokenizer_folder)),
        stop_ids=[2],
        texts=[],
        samplings=[Sampling()],
        voices=Voices([Passage([1, 2, 3], 1)], 0.1, lambda *_: None),
        tell=lambda *what: heard.append(what),
    )
    asyncio.run(preflight.take(EngineSpec(url="http://a:1")))
    ends = [message for kind, _, message in heard if kind == "ends"]
    assert [message.startswith("ends no answer at '<|im_end|>' (2)") for message in ends] == [True] * told
