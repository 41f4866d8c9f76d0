import msgspec
from hypothesis import given
from hypothesis import strategies as st

from draftmill.journal.reader import Entry
from draftmill.ledger.order import conversation_id
from draftmill.ledger.standing import Standing
from draftmill.records import Failure, Finish

IDS = [conversation_id("b", b"%d" % i, 0) for i in range(40)]


def entry(position: int, tokens: int, id: str | None = None) -> Entry:
    return Entry(id or IDS[position], position, 0, 5, tokens, Finish.STOP, 64, offset=position * 10)


def failure(position: int) -> Failure:
    return Failure(IDS[position], position, 0, "prompt", "too long", 1, None, "f:1")


def standing(positions: int, samples: int | None = None, budget: int | None = None) -> Standing:
    return Standing(bytes.fromhex("".join(IDS[:positions])), samples, budget)


def test_the_shortest_prefix_that_reaches_the_budget_counts() -> None:
    dataset = standing(6, budget=100)
    for position, tokens in ((0, 60), (1, 30), (2, 10), (3, 500), (5, 7)):
        dataset.done(entry(position, tokens))
    tally = dataset.tally()
    assert dataset.cut() == 3
    assert list(dataset.counting()) == [(0, [0]), (1, [10]), (2, [20])]
    assert (tally.counting, tally.surplus, tally.owed, tally.not_needed) == (3, 2, 0, 1)
    assert tally.counting_tokens == 100 and not dataset.exhausted()


def test_prompts_take_their_share_of_a_budget_that_counts_all() -> None:
    lines = [(0, 60), (1, 30), (2, 10), (3, 500)]
    dataset = Standing(bytes.fromhex("".join(IDS[:5])), None, 100, "all")
    for position, tokens in lines:
        dataset.done(entry(position, tokens))
    assert dataset.cut() == 2 and dataset.tally().counting_tokens == 60 + 5 + 30 + 5
    assert (dataset.tokens(0), dataset.counted(0), dataset.counted(4)) == (60, 65, 0)
    assert (dataset.worth(5, 60), standing(1).worth(5, 60)) == (65, 60)


def test_the_lengths_seen_say_which_were_cut() -> None:
    dataset = standing(4)
    dataset.done(entry(2, 7))
    dataset.done(msgspec.structs.replace(entry(0, 64), finish_reason=Finish.LENGTH))
    dataset.failed(failure(1))
    assert list(dataset.lengths()) == [(64, True), (7, False)]


def test_an_answer_that_is_still_owed_can_only_move_the_cut_down() -> None:
    dataset = standing(4, budget=100)
    dataset.done(entry(1, 60))
    dataset.done(entry(2, 60))
    assert dataset.cut() == 3 and dataset.tally().owed == 1
    dataset.done(entry(0, 60))
    assert dataset.cut() == 2 and dataset.tally().surplus == 1


def test_errors_are_skipped_over_and_a_later_completion_overrides_them() -> None:
    dataset = standing(3, budget=10)
    dataset.failed(failure(0))
    dataset.done(entry(1, 10))
    assert dataset.cut() == 2 and dataset.tally().error == 1
    dataset.done(entry(0, 10))
    assert dataset.cut() == 1 and dataset.tally().error == 0
    dataset.failed(failure(0))
    assert dataset.tally().error == 0


def test_a_second_or_foreign_line_is_a_stray() -> None:
    dataset = standing(2)
    assert dataset.done(entry(0, 5))
    for line in (entry(0, 6), entry(1, 6, IDS[7]), entry(3, 6), entry(-1, 6, IDS[1])):
        assert not dataset.done(line)
    assert dataset.strays == 4 and dataset.tokens(0) == 5


def test_a_turn_whose_earlier_one_is_lost_is_an_orphan_and_drawn_again() -> None:
    dataset = standing(1)
    lines = [(1, 6, False), (0, 5, True), (1, 7, False), (2, 1, False)]  # of the first its turn 0 is damaged
    taken = [dataset.done(msgspec.structs.replace(entry(0, n), turn=turn, more=more)) for turn, n, more in lines]
    assert taken == [False, True, True, False]
    assert (dataset.orphans, dataset.strays, dataset.tokens(0)) == (1, 1, 12)


def test_the_limits_that_cut_answers_are_those_of_their_own_lines() -> None:
    dataset = standing(4)
    assert dataset.cut_at is None
    for position, limit, finish in ((0, 64, Finish.LENGTH), (1, 900, Finish.STOP), (2, 128, Finish.LENGTH)):
        dataset.done(msgspec.structs.replace(entry(position, 9), limit=limit, finish_reason=finish))
    assert dataset.cut_at == (64, 128)


def test_a_dataset_that_ends_below_its_budget_is_exhausted() -> None:
    dataset = standing(2, budget=100)
    dataset.done(entry(0, 5))
    assert not dataset.exhausted()
    dataset.failed(failure(1))
    assert dataset.exhausted()


def test_rows_that_are_passed_through_count_in_their_place_and_are_never_owed() -> None:
    dataset = standing(5, budget=100)
    dataset.passed(0, tokens=90, supervised=60)
    dataset.done(entry(1, 30))
    dataset.passed(2, tokens=10, supervised=10)
    dataset.passed(3, tokens=99, supervised=50)
    tally = dataset.tally()
    assert dataset.cut() == 3 and list(dataset.counting()) == [(0, []), (1, [10]), (2, [])]
    assert (tally.counting, tally.passed_through, tally.owed, tally.not_needed) == (1, 2, 0, 2)
    assert tally.counting_tokens == 100 and tally.adds_up()
    assert not dataset.is_owed(0) and not dataset.is_owed(3)
    assert list(dataset.lengths()) == [(30, False)]


def test_the_prompts_of_passed_rows_count_where_all_does() -> None:
    dataset = Standing(bytes.fromhex("".join(IDS[:2])), None, 100, "all")
    dataset.passed(0, tokens=90, supervised=60)
    assert (dataset.tokens(0), dataset.counted(0)) == (60, 90)


def test_a_line_for_a_row_that_is_passed_through_is_a_stray() -> None:
    dataset = standing(1)
    dataset.passed(0, tokens=9, supervised=5)
    assert not dataset.done(entry(0, 7))
    assert not dataset.done(msgspec.structs.replace(entry(0, 7), partial=True))
    dataset.failed(failure(0))
    assert (dataset.strays, dataset.tokens(0), dataset.tally().passed_through) == (2, 5, 1)


@given(
    st.lists(st.tuples(st.sampled_from(["done", "failed", "owed", "passed"]), st.integers(0, 50)), max_size=40),
    st.none() | st.integers(1, 45),
    st.none() | st.integers(1, 600),
)
def test_every_position_is_in_exactly_one_state(
    events: list[tuple[str, int]], samples: int | None, budget: int | None
) -> None:
    dataset = standing(len(events), samples, budget)
    for position, (event, tokens) in enumerate(events):
        if event == "done":
            dataset.done(entry(position, tokens))
        elif event == "failed":
            dataset.failed(failure(position))
        elif event == "passed":
            dataset.passed(position, tokens + 3, tokens)
    tally = dataset.tally()
    assert tally.adds_up()
    assert tally.counting + tally.passed_through == len(list(dataset.counting()))
    counted = [tokens for event, tokens in events[: dataset.cut()] if event in ("done", "passed")]
    assert tally.counting_tokens == sum(counted)
    if budget is not None and counted:
        assert sum(counted[:-1]) < budget
