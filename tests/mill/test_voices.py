import asyncio
import math
from pathlib import Path

import pytest

from draftmill.engines import voice
from draftmill.engines.protocol import Engine, Scored
from draftmill.engines.voice import Passage, Recorded, Voice, read_voices
from draftmill.errors import CapacityFault, EngineError, ReplyFault, RunError, SetupFault, TransportFault
from draftmill.mill.seat import Seat, State
from draftmill.mill.voices import Voices, differ, passages
from draftmill.recipe import EngineSpec
from draftmill.render import tokenizer
from draftmill.render.template import ChatTemplate
from tests.mill.scripted import ScriptedEngine

ASKED = [Passage([1, 2, 3], 1), Passage([4, 5, 6, 7], 2)]
TOLERANCE = 0.06


class Speaker(ScriptedEngine):
    """Gives every id its own log-probability, off by ``off``; or fails."""

    def __init__(self, name: str, off: float = 0.0, fault: EngineError | None = None) -> None:
        super().__init__(name=name)
        self.off = off
        self.fault = fault
        self.asked = 0

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        self.asked += 1
        await asyncio.sleep(0)
        if self.fault:
            raise self.fault
        return Scored([-float(i) + self.off for i in ids[start:]])


class Room:
    """Voices, and what they told."""

    def __init__(self, tolerance: float = TOLERANCE, kept: Path | None = None, *, begun: bool = True) -> None:
        self.told: list[tuple[str, str, str]] = []
        self.voices = Voices(ASKED, tolerance, lambda *what: self.told.append(what), kept, begun=begun)

    def compare(self, *engines: Engine) -> None:
        asyncio.run(self.voices.compare(engines))

    def again(self, engine: Engine) -> str:
        return asyncio.run(self.voices.again(engine))

    def kinds(self) -> list[tuple[str, str]]:
        return [(kind, engine) for kind, engine, _ in self.told]


@pytest.mark.parametrize(("other", "apart"), [((-1.0, -2.1), 0.05), ((-1.2, -1.9), 0.15), ((-3.0, 0.0), 2.0)])
def test_two_voices_differ_beyond_the_tolerance(other: tuple[float, ...], apart: float) -> None:
    assert (differ(Voice("a", (-1.0, -2.0)), Voice("b", other), TOLERANCE) == "") is (apart < TOLERANCE)


def test_a_difference_is_told_in_figures() -> None:
    text = differ(Voice("a", (-1.0, -2.0)), Voice("b", (-1.2, -2.0)), TOLERANCE)
    assert text == "they differ by 0.100 nats on average over the same 2 ids, above 0.06"


def test_no_number_is_no_voice() -> None:
    assert differ(Voice("a", (math.nan,)), Voice("b", (-1.0,)), TOLERANCE)


def test_one_engine_alone_is_heard_and_nothing_is_told(tmp_path: Path) -> None:
    kept = tmp_path / "voices.json"
    room, alone = Room(kept=kept), Speaker("a", 0.5)
    room.compare(alone)
    assert room.again(alone) == ""
    assert room.told == []
    assert read_voices(kept) == Recorded(ASKED, [Voice("a", (-1.5, -2.5, -5.5, -6.5))])
    alone.off = 0.6
    assert "not the weights of a before" in room.again(alone)


def test_every_start_is_recorded_and_asks_the_same(tmp_path: Path) -> None:
    kept = tmp_path / "voices.json"
    Room(kept=kept).compare(Speaker("a"))
    Room(kept=kept).compare(Speaker("a", 0.0005))  # the same, as far as servers are
    with pytest.raises(RunError, match="nan nats"):
        Room(kept=kept).compare(Speaker("a", math.nan))
    later = Voices([Passage([9, 8], 1)], TOLERANCE, lambda *_: None, kept)  # of another version of this program
    asyncio.run(later.compare([Speaker("a", 0.05)]))
    recorded = read_voices(kept)
    assert recorded.passages == ASKED
    assert [voice.said[0] for voice in recorded.voices] == [-2.0, -1.95]


def test_a_start_with_other_weights_than_earlier_starts_is_refused(tmp_path: Path) -> None:
    kept = tmp_path / "voices.json"
    Room(kept=kept).compare(Speaker("a"), Speaker("b", 0.01))
    before = kept.read_bytes()
    for name, who in (("a", "it"), ("c", "a")):
        with pytest.raises(RunError) as caught:
            Room(kept=kept).compare(Speaker(name, 0.5))
        what = f"{name} does not serve the weights that {who} served at an earlier start: they differ by 0.500 nats"
        assert caught.value.message.startswith(what) and "engine_tolerance" in caught.value.advice
    assert kept.read_bytes() == before
    same = Room(kept=kept)
    same.compare(Speaker("a", 0.02))
    assert same.told == [("weights", "a", "the same as those of earlier starts, within 0.0200 nats")]
    Room(0.6, kept).compare(Speaker("a", 0.5))  # the tolerance is the user's


def test_an_engine_that_could_not_be_heard_at_the_start_is_held_against_earlier_starts(tmp_path: Path) -> None:
    Room(kept=tmp_path / "voices.json").compare(Speaker("a"))
    room, late = Room(kept=tmp_path / "voices.json"), Speaker("a", 0.5, TransportFault("gone"))
    room.compare(late)
    late.fault = None
    assert "not the weights of a before" in room.again(late)


def test_starts_that_gave_no_answer_bind_no_later_one(tmp_path: Path) -> None:
    """Somebody began with the wrong server, and saw it."""
    kept = tmp_path / "voices.json"
    Room(kept=kept).compare(Speaker("wrong", 0.5))
    Room(kept=kept, begun=False).compare(Speaker("right"))
    assert [voice.engine for voice in read_voices(kept).voices] == ["right"]


def test_one_that_goes_before_it_was_heard_binds_those_that_come_later() -> None:
    room, gone, other = Room(), Speaker("gone"), Speaker("other", 0.5)
    asyncio.run(room.voices.remember(gone))
    asyncio.run(room.voices.remember(gone))
    assert gone.asked == len(ASKED)
    with pytest.raises(RunError, match="gone and other do not serve the same weights"):
        room.compare(other)


def test_the_same_weights_pass_and_each_is_asked_once() -> None:
    room, a, b, c = Room(), Speaker("a"), Speaker("b", 0.03), Speaker("c", -0.01)
    room.compare(a, b)
    assert room.kinds() == [("weights", "a"), ("weights", "b")]
    assert room.told[0][2] == "the same as the other engine's, within 0.0300 nats"
    room.compare(a, b, c)  # one that comes while the run is on
    assert room.kinds()[2:] == [("weights", "c")]
    assert [a.asked, b.asked, c.asked] == [len(ASKED)] * 3


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_other_weights_are_refused_and_both_engines_named(odd: int) -> None:
    engines = [Speaker(name, 0.1 if at == odd else 0.0) for at, name in enumerate("xyz")]
    with pytest.raises(RunError) as caught:
        Room().compare(*engines)
    assert engines[odd].name in caught.value.message.split(" do not serve the same weights")[0].split(" and ")
    assert "0.100 nats" in caught.value.message and "above 0.06" in caught.value.message
    assert "engine_tolerance" in caught.value.advice


def test_the_tolerance_is_the_users() -> None:
    Room(0.2).compare(Speaker("a"), Speaker("b", 0.1))


def test_one_that_joins_is_held_against_one_that_left() -> None:
    room, a, b, late = Room(), Speaker("a"), Speaker("b"), Speaker("late", 0.1)
    room.compare(a, b)
    with pytest.raises(RunError, match="a and late"):
        room.compare(late)
    with pytest.raises(RunError):  # a refused one is not known from now on
        room.compare(late)


def test_one_that_left_and_joins_again_is_counted_once() -> None:
    room = Room()
    room.compare(Speaker("a"), Speaker("b"))
    room.compare(Speaker("a"))  # another object, as after it was put in again
    assert room.told[-1][2].startswith("the same as the other engine's,")


def test_two_that_join_at_once_are_held_against_each_other() -> None:
    room, first = Room(), Speaker("first")

    async def join() -> list[BaseException | None]:
        arriving = [room.voices.compare([first, Speaker("a", off)]) for off in (-0.05, 0.05)]
        return list(await asyncio.gather(*arriving, return_exceptions=True))

    results = asyncio.run(join())
    assert [type(result) for result in results].count(RunError) == 1


@pytest.mark.parametrize("fault", [SetupFault("no"), ReplyFault("odd"), TransportFault("gone"), CapacityFault("full")])
def test_an_engine_that_cannot_score_is_told_and_let_pass(fault: EngineError) -> None:
    room, mute = Room(), Speaker("mute", fault=fault)
    room.compare(Speaker("a"), mute, Speaker("b"))
    assert sorted(room.kinds()) == [("unheard", "mute"), ("weights", "a"), ("weights", "b")]
    assert fault.message in {engine: text for _, engine, text in room.told}["mute"]


def test_one_that_comes_back_is_held_against_what_it_was() -> None:
    room, a, b = Room(), Speaker("a"), Speaker("b", 0.05)
    room.compare(a, b)
    assert room.again(b) == ""
    b.off = 0.2
    differs = room.again(b)
    assert differs.startswith("not the weights of b before: they differ by 0.150 nats")
    b.off = 0.05
    assert room.again(b) == ""  # the stranger's voice was not kept


def test_one_that_was_not_heard_at_the_start_is_held_against_the_others() -> None:
    room, a, b = Room(), Speaker("a"), Speaker("b", 0.1, TransportFault("gone"))
    room.compare(a, b)
    b.fault = None
    assert "not the weights of a" in room.again(b)
    b.off = 0.0
    assert room.again(b) == ""


@pytest.mark.parametrize("fault", [TransportFault("gone"), CapacityFault("loading")])
def test_one_that_cannot_be_asked_yet_is_not_back(fault: EngineError) -> None:
    room, a, b = Room(), Speaker("a"), Speaker("b")
    room.compare(a, b)
    b.fault = fault
    with pytest.raises(type(fault)):
        room.again(b)
    b.fault = SetupFault("no scores here")
    assert room.again(b) == "" and room.kinds()[-1] == ("unheard", "b")


def test_an_engine_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Speaker):
        async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
            await asyncio.Event().wait()
            return Scored([])

    monkeypatch.setattr(voice, "_PATIENCE", 0.01)
    room = Room()
    room.compare(Speaker("a"), Silent("silent"))
    assert ("unheard", "silent") in room.kinds()


def test_a_seat_whose_engine_comes_back_with_other_weights_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftmill.mill.seat._PROBE_EVERY", (0.0, 0.001))
    room, a, b = Room(), Speaker("a"), Speaker("b")
    told: list[tuple[str, str, str]] = []

    async def until(state: State) -> None:
        while seat.state is not state:  # noqa: ASYNC110 - a seat announces nothing to a test
            await asyncio.sleep(0.001)

    async def live() -> None:
        nonlocal seat
        seat = Seat(b, EngineSpec(url="http://127.0.0.1:1"), b._identity, lambda *what: told.append(what))
        await room.voices.compare([a, b])
        seat.recognise = room.voices.again
        asked = b.asked
        seat.doubt(TransportFault("a reset"), lambda: None)
        await until(State.OPEN)
        assert b.asked == asked  # a call that failed while the server lives is no reason to ask
        b.alive = TransportFault("gone")
        seat.doubt(TransportFault("a reset"), lambda: None)
        await until(State.LOST)
        b.alive, b.off = None, 0.5
        await until(State.PAUSED)
        assert "it came back as another server: not the weights of b before" in seat.why
        b.fault = TransportFault("gone again")
        await asyncio.sleep(0.01)
        b.fault, b.off = None, 0.0
        await until(State.OPEN)
        await seat.close()

    seat: Seat
    asyncio.run(asyncio.wait_for(live(), 10))
    assert [kind for kind, _, _ in told] == ["lost", "paused", "back"]


@pytest.fixture(scope="module")
def template(tokenizer_folder: Path) -> tuple[tokenizer.Tokenizer, ChatTemplate]:
    loaded = tokenizer.load(str(tokenizer_folder))
    return loaded, ChatTemplate(loaded, "2026-01-01")


def test_passages_are_answers_behind_rendered_questions(template: tuple[tokenizer.Tokenizer, ChatTemplate]) -> None:
    asked = passages(*template, {})
    loaded = template[0]
    assert sum(len(p.ids) - p.start for p in asked) == 90  # the thresholds were measured with these
    for passage in asked:
        assert loaded.decode(passage.ids[: passage.start]).endswith("<|im_start|>assistant\n")
        answer = loaded.decode(passage.ids[passage.start :])
        assert answer.isascii() and answer[0].isalnum()


def test_a_template_that_refuses_plain_questions_still_gives_passages(
    template: tuple[tokenizer.Tokenizer, ChatTemplate],
) -> None:
    loaded, chat = template
    refusing = "{{ raise_exception('tools are needed') }}"
    before, loaded.inner.chat_template = loaded.inner.chat_template, refusing
    try:
        asked = passages(loaded, chat, {})
    finally:
        loaded.inner.chat_template = before
    assert all(passage.start > 0 for passage in asked)
    assert loaded.decode(asked[0].ids).startswith("What is a glacier?\nA glacier")
