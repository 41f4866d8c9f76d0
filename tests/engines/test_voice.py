import asyncio
from pathlib import Path

import msgspec
import pytest

from draftmill.engines import voice as module
from draftmill.engines.protocol import Scored
from draftmill.engines.voice import Passage, Recorded, Voice, distance, hear, read_voices
from draftmill.errors import TransportFault
from tests.mill.scripted import ScriptedEngine

ASKED = [Passage([1, 2, 3], 1), Passage([4, 5, 6, 7], 2)]


class Speaker(ScriptedEngine):
    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        return Scored([0.5 - i for i in ids[start:]])


class Silent(ScriptedEngine):
    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        await asyncio.Event().wait()
        return Scored([])


def test_a_voice_is_all_passages_in_order() -> None:
    assert asyncio.run(hear(Speaker(name="a"), ASKED)) == Voice("a", (-1.5, -2.5, -5.5, -6.5))


def test_an_engine_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    with pytest.raises(TransportFault, match="silent: has not scored a few ids"):
        asyncio.run(hear(Silent(name="silent"), ASKED))


@pytest.mark.parametrize(
    ("other", "apart"),
    [((-1.0, -2.0), 0.0), ((-1.0, -2.1), 0.05), ((-1.2, -1.9), 0.15), ((-3.0, -2.0), 1.0), ((-3.0, 0.0), 2.0)],
)
def test_the_distance_is_the_mean_difference_whatever_its_sign(other: tuple[float, ...], apart: float) -> None:
    one = Voice("a", (-1.0, -2.0))
    assert distance(one, Voice("b", other)) == pytest.approx(apart) == distance(Voice("b", other), one)


def test_what_is_no_record_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "voices.json"
    assert read_voices(None) == read_voices(path) == Recorded()
    path.write_text('{"passages": [[1, 2]]}')
    assert read_voices(path) == Recorded()
    voices = [Voice("a", (-1.0, -2.0, -3.0, -4.0)), Voice("of other passages", (-1.0,))]
    path.write_bytes(msgspec.json.encode(Recorded(ASKED, voices)))
    assert read_voices(path) == Recorded(ASKED, voices[:1])
