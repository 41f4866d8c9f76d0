from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.prompts import PromptHead
from draftmill.journal.reader import Entry
from draftmill.journal.sent import SentMark
from draftmill.ledger.order import conversation_id
from draftmill.ledger.standing import Standing, load_standing
from draftmill.mill.stream import Stream
from draftmill.recipe import BudgetCounts, Dataset, Sampling
from draftmill.records import Completion, Failure, Finish, Prompt

IDS = [conversation_id("a", b"%d" % n, 0) for n in range(60)]
LIMIT = 100


def stream(path: Path, answered: dict[int, int], budget: int | None, counts: BudgetCounts = "generated") -> Stream:
    """Sixty prompts of 10 tokens, some of them answered in an earlier start; its clock stands still."""
    folder = DatasetFolder(path)
    lines = [encode(Prompt(id, n, "short", [], [1] * 10)) for n, id in enumerate(IDS)]
    folder.prompts.write_bytes(b"\n".join(lines) + b"\n")
    standing = Standing(bytes.fromhex("".join(IDS)), None, budget, counts)
    for position, tokens in answered.items():
        standing.done(Entry(IDS[position], position, 0, 10, tokens, Finish.STOP, LIMIT))
    dataset = Dataset(name="a", source="x", budget=budget, budget_counts=counts)
    return Stream(dataset, folder, standing, sampling=Sampling(), limit=LIMIT, now=lambda: 0.0)


def sent(stream: Stream) -> Iterator[PromptHead]:
    """Everything that it would send now."""
    while prompt := stream.next():
        stream.sent(prompt.position, LIMIT)
        yield prompt


def answer(stream: Stream, prompt: PromptHead, tokens: int) -> None:
    finish = Finish.LENGTH if tokens == LIMIT else Finish.STOP
    stream.answered(Completion(prompt.id, prompt.position, 0, [], 10, tokens, finish, 2, 0, 1.0, "e", LIMIT))


@pytest.mark.parametrize(
    ("answered", "budget", "counts", "positions"),
    [
        ({}, None, "generated", list(range(60))),
        ({}, 450, "generated", [0, 1, 2, 3, 4]),  # nothing known: each may take its whole limit
        ({}, 450, "all", [0, 1, 2, 3, 4]),  # 110 each
        ({}, 440, "all", [0, 1, 2, 3]),
        (dict.fromkeys(range(50), 20), 1100, "generated", [50, 51, 52, 53, 54]),  # about 20 each
        (dict.fromkeys(range(50), 20), 1000, "generated", []),
        (dict.fromkeys(range(50), 20), 1600, "all", [50, 51, 52, 53]),  # 30 each, and about as much
        (dict.fromkeys(range(3, 53), 20), 70, "generated", [0, 1, 2]),  # holes of an earlier start come first
    ],
)
def test_it_sends_until_what_is_before_is_expected_to_reach_the_budget(
    tmp_path: Path, answered: dict[int, int], budget: int | None, counts: BudgetCounts, positions: list[int]
) -> None:
    owed = stream(tmp_path, answered, budget, counts)
    assert [prompt.position for prompt in sent(owed)] == positions
    owed.close()


def test_a_short_answer_makes_room_and_a_long_one_none(tmp_path: Path) -> None:
    owed = stream(tmp_path, {}, 450)
    first = list(sent(owed))
    answer(owed, first[0], LIMIT)
    assert not owed.ready() and owed.in_flight == 4
    answer(owed, first[1], 10)
    assert [prompt.position for prompt in sent(owed)] == [5, 6, 7]
    owed.gave_up(first[2].position)
    assert owed.ready() and (owed.completed, owed.failed, owed.tokens, owed.counted) == (2, 1, 110, 110)
    owed.close()


def test_what_is_known_of_an_answer_in_flight_holds_the_next_one_back(tmp_path: Path) -> None:
    lengths = dict(enumerate([10, 90] * 25))
    owed = stream(tmp_path, lengths, sum(lengths.values()) + 120)
    assert [prompt.position for prompt in sent(owed)] == [50, 51, 52]  # about 50 each
    owed.close()
    owed = stream(tmp_path, lengths, sum(lengths.values()) + 120)
    for expected in (50, 51):
        prompt = owed.next()
        assert prompt and prompt.position == expected
        owed.sent(prompt.position, LIMIT)
        owed.partial(prompt.position, 40)  # it will be one of the long ones
    assert not owed.ready()
    owed.close()


def test_a_budget_that_changes_while_it_runs(tmp_path: Path) -> None:
    many = stream(tmp_path, dict.fromkeys(range(50), 20), None)
    many.set_budget(1100)
    assert [p.position for p in sent(many)] == [50, 51, 52, 53, 54]  # the lengths of before are known now
    assert many.resumed.counting_tokens == 1000
    many.set_budget(1140)
    assert [p.position for p in sent(many)] == [55, 56]
    many.set_budget(500)
    assert list(sent(many)) == [] and many.resumed.surplus == 25
    many.set_budget(None)
    assert [p.position for p in sent(many)] == [57, 58, 59]


def test_it_says_where_how_far_was_sent_is_lost(tmp_path: Path) -> None:
    assert not stream(tmp_path, {}, None).unmarked  # nothing was sent
    assert stream(tmp_path, {0: 5, 1: 5}, None).unmarked
    assert not stream(tmp_path, dict.fromkeys(range(60), 5), None).unmarked  # nothing is owed
    begun = stream(tmp_path, {}, None)
    list(sent(begun))
    begun.mark_sent()
    assert not stream(tmp_path, {0: 5, 1: 5}, None).unmarked


def test_a_prompt_that_no_engine_was_sent_is_not_drawn_again_when_it_is_tried_again(tmp_path: Path) -> None:
    folder = DatasetFolder(tmp_path)
    stream(tmp_path, {}, None).close()
    engines = {0: None, 1: "e", 2: None}
    lines = [Failure(IDS[n], n, 0, "too_long", "9 tokens", 0, engine, "a.jsonl:1") for n, engine in engines.items()]
    lines.append(msgspec.structs.replace(lines[2], engine="e"))  # a larger one got it later
    folder.errors.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    standing = load_standing(folder, retry_errors=True)
    mark = SentMark(folder.sent)
    mark.reach(9)
    mark.write()
    mark.close()
    dataset = Dataset(name="a", source="x")
    again = Stream(dataset, folder, standing, sampling=Sampling(), limit=LIMIT, now=lambda: 0.0)
    redrawn = [again.work(0, prompt).redrawn for prompt in sent(again)]
    assert redrawn[:4] == [False, True, True, True] and redrawn[9:11] == [True, False]
