"""One request under way: what is heard of its answer, and the lines that come of it."""

from array import array
from types import SimpleNamespace
from typing import Any

import pytest

from draftmill.engines.protocol import Reply, Request
from draftmill.mill import call as calls
from draftmill.mill.call import Call
from draftmill.mill.work import Work
from draftmill.recipe import Sampling
from draftmill.records import Completion, Finish

VOCABULARY = 1000


class Clock:
    now = 100.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(calls.clock, "now", lambda: clock.now)
    return clock


class Stream:
    def __init__(self) -> None:
        self.tokens = 0

    def partial(self, position: int, tokens: int) -> None:
        self.tokens = tokens

    def waits(self, position: int) -> None:
        pass


def call(begun: list[int] | None = None, written: int = 0) -> Call:
    prompt: Any = SimpleNamespace(id="a", position=0, turn=0, prompt_ids=[5, 6])
    seat: Any = SimpleNamespace(engine=SimpleNamespace(name="e"))
    work = Work(0, prompt, begun=begun or [], written=written)
    request = Request([5, 6, *work.begun], 50, Sampling(), (2,), "t")
    stream: Any = Stream()
    return Call(SimpleNamespace(), seat, stream, work, request)  # type: ignore[arg-type]


def ids(piece: Completion | None) -> tuple[list[int], int] | None:
    return (piece.output_ids, piece.continued) if piece else None


def test_an_answer_that_grows_in_place_is_heard_to_grow() -> None:
    one, growing = call(), array("I")
    assert not one.hear(growing)
    growing.extend([7, 8])
    assert one.hear(growing)
    assert not one.hear(growing)
    growing.append(9)
    assert one.hear(growing) and one.stream.tokens == 3  # type: ignore[attr-defined]


def test_each_piece_holds_what_no_line_holds_yet() -> None:
    one, growing = call(begun=[30, 31], written=1), array("I", [7])
    one.hear(growing)
    assert ids(one.piece(VOCABULARY)) == ([31, 7], 1)
    assert one.piece(VOCABULARY) is None
    growing.extend([8, 9])
    one.hear(growing)
    assert ids(one.piece(VOCABULARY)) == ([8, 9], 3)
    growing.append(10)
    one.hear(growing)
    assert ids(one.keep_beginning(VOCABULARY)) == ([10], 5)
    assert one.work.begun == [30, 31, 7, 8, 9, 10] and one.stream.tokens == 6  # type: ignore[attr-defined]


@pytest.mark.parametrize("bad", [2, VOCABULARY])
def test_nothing_is_kept_of_ids_that_cannot_be_believed(bad: int) -> None:
    one, growing = call(), array("I", [7, 8])
    one.hear(growing)
    assert ids(one.piece(VOCABULARY)) == ([7, 8], 0)
    growing.extend([9, bad])
    for _ in range(2):
        one.hear(growing)
        assert one.piece(VOCABULARY) is None
    assert one.keep_beginning(VOCABULARY) is None
    assert one.work.begun == [7, 8]


def test_the_whole_answer_is_one_line() -> None:
    one = call(begun=[30, 31], written=2)
    line = one.completion(Reply([7, 2], 4, 2, Finish.STOP, 2))
    assert (line.output_ids, line.continued, line.prompt_tokens) == ([30, 31, 7, 2], 2, 2)


def test_a_beginning_is_due_a_little_early(clock: Clock) -> None:
    one = call()
    for seconds, due in ((0.5, False), (0.9, True)):
        clock.now = 100.0 + seconds
        assert one.due(1.0) is due
    one.hear([7])
    assert one.piece(VOCABULARY)
    assert not one.due(1.0)
