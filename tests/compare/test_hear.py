"""Two engines asked the same: who is asked what, when, how many at once, and what is done about faults."""

import asyncio

import pytest

from draftmill.compare import hear as module
from draftmill.compare.effects import Heard
from draftmill.compare.hear import hear
from draftmill.errors import ReplyFault, SetupFault, TransportFault
from tests.compare.toy_engine import ToyEngine, opened, plan


def heard(a: ToyEngine, b: ToyEngine, prompts: int = 6) -> Heard:
    return asyncio.run(hear(opened(a), opened(b), plan(prompts, 8), lambda *_: None))


def test_each_is_opened_in_turn_and_scores_both(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = ToyEngine(), ToyEngine(moved=0.3)
    found = heard(a, b)
    assert (a.opened, b.opened) == (2, 1)
    for answers, scores in ((found.a, found.a_of_a), (found.a, found.b_of_a), (found.b, found.a_of_b)):
        assert [len(answer.ids) for answer in answers] == [len(score.logprobs) for score in scores]
    assert found.a_of_a != found.b_of_a and found.a_of_a == found.again_of_a and found.a_of_b == found.again_of_b
    assert found.greedy_a == found.greedy_again != found.greedy_b


def test_the_second_look_is_in_another_order_and_other_batches() -> None:
    a = ToyEngine()
    heard(a, ToyEngine())
    firsts = [prompt[0] for prompt in a.asked]
    assert firsts[:6] == list(range(10, 16))
    assert firsts[-6:] == list(range(15, 9, -1))
    assert a.most_running == 4
    again = ToyEngine(slots=None)
    asyncio.run(hear(opened(again), opened(ToyEngine()), plan(40, 2), lambda *_: None))
    assert again.most_running == module.AT_ONCE


def test_the_same_seeds_give_both_the_same_draws() -> None:
    found = heard(ToyEngine(), ToyEngine())
    assert found.a == found.b


def test_a_server_that_is_away_for_a_moment_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    a, b = ToyEngine(), ToyEngine()
    b.faults = [TransportFault("gone"), TransportFault("gone")]
    assert len(heard(a, b).b) == 6
    b.faults = [TransportFault("gone")] * 100
    with pytest.raises(TransportFault, match="gone"):
        heard(a, b)


def test_a_fault_of_the_setup_is_told_as_it_is() -> None:
    b = ToyEngine()
    b.faults = [SetupFault("no such key")]
    with pytest.raises(SetupFault, match="no such key"):
        heard(ToyEngine(), b)


def test_a_reply_that_contradicts_its_request_is_refused() -> None:
    asked = plan(4, 8)._replace(vocab_size=5)
    with pytest.raises(ReplyFault, match="vocabulary of 5"):
        asyncio.run(hear(opened(ToyEngine()), opened(ToyEngine()), asked, lambda *_: None))
