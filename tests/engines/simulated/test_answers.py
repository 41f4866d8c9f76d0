"""The simulated model: answers that follow from the prompt, and go on where they were cut."""

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.engines.simulated.answers import BEGIN, FIRST, STOP, Answers, Draw, Lengths

PROMPTS = st.lists(st.integers(FIRST, 999), min_size=1, max_size=60)


def whole(model: Answers, prompt: list[int], **asked: object) -> list[int]:
    answer = model.of(prompt, **asked)  # type: ignore[arg-type]
    return answer.ids(answer.done, answer.length)


@given(PROMPTS, st.integers(1, 40))
def test_an_answer_is_whole_and_checks(prompt: list[int], length: int) -> None:
    model = Answers(Lengths(length, 0))
    ids = whole(model, prompt)
    assert len(ids) == length
    assert ids[-1] == STOP and STOP not in ids[:-1]
    assert all(0 <= token < model.vocab_size for token in ids)
    assert model.check(prompt, ids) is None


@given(PROMPTS, st.integers(4, 3000), st.data())
def test_a_part_is_continued(prompt: list[int], length: int, data: st.DataObject) -> None:
    """Whoever serves the rest, and whatever it would draw by itself; from the second id on, which names the draw."""
    first = Answers(Lengths(length, 0), draw=Draw.ALWAYS, salt=1)
    other = Answers(Lengths(length, 0), draw=Draw.ALWAYS, salt=2)
    ids = whole(first, prompt, count=7)
    cut = data.draw(st.integers(2, length - 1))
    assert ids[:cut] + whole(other, prompt + ids[:cut], count=9) == ids


@given(PROMPTS, st.floats(0.5, 4), st.integers(0, 50))
def test_one_that_has_only_begun_is_drawn_and_checks(prompt: list[int], mean: float, count: int) -> None:
    """Its first id names no draw yet; however short the draw, it goes on behind that id."""
    model = Answers(Lengths(mean, 0.9), draw=Draw.ALWAYS)
    rest = whole(model, [*prompt, BEGIN], count=count)
    assert rest and model.check(prompt, [BEGIN, *rest]) is None


def test_an_id_that_names_no_draw_is_wrong() -> None:
    model = Answers(Lengths(30), draw=Draw.ALWAYS)
    assert model.check([50, 51], [BEGIN, BEGIN, 50, 51]) == f"the id at 1 is {BEGIN}, which names no variant"


@given(PROMPTS, st.integers(9, 80), st.data())
def test_a_wrong_id_is_found(prompt: list[int], length: int, data: st.DataObject) -> None:
    model = Answers(Lengths(length, 0))
    ids = whole(model, prompt)
    at = data.draw(st.integers(0, length - 1))
    ids[at] += 1
    assert model.check(prompt, ids) is not None
    assert model.check([*prompt, 17], whole(model, prompt)) is not None


def test_a_later_turn_is_another_answer() -> None:
    model = Answers(Lengths(30, 0))
    ids = whole(model, [50, 51])
    assert ids[0] == BEGIN
    assert model.of([50, 51, *ids]).done == 0  # it has ended: what follows is a new turn
    assert model.of([50, 51, *ids, 60]).done == 0
    assert model.of([50, 51, *ids[:9], 60]).done == 0  # not how the answer goes on: part of the prompt


@pytest.mark.parametrize(
    ("draw", "same", "other"),
    [
        (Draw.NEVER, {"seed": 1, "tag": "a", "count": 1}, None),
        (Draw.SEED, {"seed": 5, "tag": "b", "count": 2}, {"seed": 6}),
        (Draw.ALWAYS, {"seed": 9, "tag": "c", "count": 0}, {"seed": 5, "tag": "a", "count": 1}),
    ],
)
def test_what_draws_another_answer(draw: Draw, same: dict[str, object], other: dict[str, object] | None) -> None:
    model = Answers(Lengths(200), draw=draw)
    first = whole(model, [20, 21], seed=5, tag="a", count=0)
    assert whole(model, [20, 21], **same) == first
    if other is not None:
        again = whole(model, [20, 21], **other)
        assert again != first and len(again) != len(first)
        assert model.check([20, 21], again) is None


def test_lengths_are_log_normal_with_the_mean_of_their_dataset() -> None:
    model = Answers(Lengths(10, 0), by_first={101: Lengths(900, 0.9), 102: Lengths(3000, 0.5)})
    for first, mean, sigma in ((101, 900, 0.9), (102, 3000, 0.5)):
        lengths = [model.of([first, *(20 + int(d) for d in str(n))]).length for n in range(4000)]
        error = mean * math.sqrt((math.exp(sigma**2) - 1) / len(lengths))
        assert abs(fmean(lengths) - mean) < 4 * error
        logs = [math.log(length) for length in lengths]
        assert fmean((x - fmean(logs)) ** 2 for x in logs) == pytest.approx(sigma**2, rel=0.1)
    assert model.of([103]).length == 10
