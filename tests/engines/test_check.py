import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.engines.check import check_beginning, check_reply, check_request
from draftmill.engines.protocol import Reply, Request
from draftmill.recipe import Sampling
from draftmill.records import Finish

STOP, LENGTH = Finish.STOP, Finish.LENGTH
VOCAB = 100


def request(prompt: list[int] | None = None, limit: int = 4) -> Request:
    ids = [5, 6, 7] if prompt is None else prompt
    return Request(prompt_ids=ids, limit=limit, sampling=Sampling(), stop_ids=(2, 3), tag="t")


def reply(out: list[int], finish: Finish, **changed: int) -> Reply:
    said = {"prompt_tokens": 3, "completion_tokens": len(out)} | changed
    return Reply(output_ids=out, finish=finish, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "good",
    [
        reply([9, 2], STOP),
        reply([2], STOP),
        reply([9, 3], STOP, matched_stop=3),
        reply([9, 8, 7, 2], STOP),  # the stop id is the last that the limit allows
        reply([9, 8, 7, 2], LENGTH),  # the same, told the other way
        reply([9, 8, 7, 6], LENGTH),
        reply([0, VOCAB - 1, 2], STOP),
    ],
)
def test_believed(good: Reply) -> None:
    assert check_reply(request(), good, VOCAB) is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (reply([9, 2], STOP, prompt_tokens=4), "counts 4 prompt tokens, 3 were sent"),
        (reply([9, 2], STOP, prompt_tokens=2), "counts 2 prompt tokens"),
        (reply([9, 2], STOP, completion_tokens=1), "counts 1 completion tokens and returned 2"),
        (reply([], STOP), "no id"),
        (reply([], LENGTH), "no id"),
        (reply([VOCAB, 2], STOP), "outside the vocabulary"),
        (reply([-1, 2], STOP), "the id -1 lies outside"),
        (reply([9, 8, 7, 6, 5], LENGTH), "5 ids were generated, 4 are the limit"),
        (reply([2, 9, 3], STOP), "the stop id 2 stands at 0"),
        (reply([9, 3, 8, 7], LENGTH), "the stop id 3 stands at 1"),
        (reply([9, 8], STOP), "stopped at the id 8, which is none of the stop ids [2, 3]"),
        (reply([9, 2], STOP, matched_stop=3), "stopped at the id 3, the last id is 2"),
        (reply([9, 8], LENGTH), "limit of 4 was met after 2"),
        (reply([9, 2], LENGTH), "limit of 4 was met after 2"),
    ],
)
def test_not_believed(bad: Reply, reason: str) -> None:
    found = check_reply(request(), bad, VOCAB)
    assert found is not None and reason in found


@given(st.lists(st.integers(4, VOCAB - 1), min_size=1, max_size=30), st.sampled_from([2, 3]), st.booleans())
def test_what_a_right_server_says_is_believed(out: list[int], stop: int, stopped: bool) -> None:
    ids = [*out, stop] if stopped else out
    said = reply(ids, STOP if stopped else LENGTH)
    assert check_reply(request(limit=len(ids)), said, VOCAB) is None


@given(st.lists(st.integers(4, VOCAB - 1), min_size=2, max_size=30), st.data())
def test_a_dropped_end_is_noticed(out: list[int], data: st.DataObject) -> None:
    kept = out[: data.draw(st.integers(0, len(out) - 1))]
    assert check_reply(request(limit=len(out)), reply(kept, LENGTH), VOCAB) is not None
    assert check_reply(request(limit=len(out)), reply(kept, STOP), VOCAB) is not None


@pytest.mark.parametrize(
    ("bad", "vocab", "reason"),
    [
        (request([]), None, "empty"),
        (request([5, -1]), None, "the id -1"),
        (request([5, VOCAB]), VOCAB, "beyond the vocabulary of 100"),
        (request(limit=0), VOCAB, "limit is 0"),
    ],
)
def test_requests_that_no_server_must_see(bad: Request, vocab: int | None, reason: str) -> None:
    found = check_request(bad, vocab)
    assert found is not None and reason in found


def test_a_good_request_may_go() -> None:
    assert check_request(request(), VOCAB) is None
    assert check_request(request([5, VOCAB])) is None  # nothing is known of the vocabulary


@given(
    st.lists(
        st.sampled_from([0, 1, 2, 3, 50, 255, 256, 512, 768, 65536, 1 << 24, (1 << 32) - 1, 1 << 32, -1]), min_size=1
    ),
    st.sampled_from([STOP, LENGTH, Finish.ABORT]),
    st.sampled_from([300, 70_000, 1 << 32]),
    st.lists(st.sampled_from([0, 1, 2, 256, 512, 65536]), unique=True),
)
def test_a_wrong_id_and_an_early_stop_are_found_wherever_they_stand(
    out: list[int], finish: Finish, vocab: int, stops: list[int]
) -> None:
    asked = Request(prompt_ids=[5, 6, 7], limit=len(out), sampling=Sampling(), stop_ids=tuple(stops), tag="t")
    found = check_reply(asked, reply(out, finish), vocab) or ""
    wrong = [i for i in out if not 0 <= i < vocab]
    early = [(i, at) for at, i in enumerate(out) if i in stops and (finish is Finish.ABORT or at < len(out) - 1)]
    assert ("lies outside the vocabulary" in found) == bool(wrong)
    assert not wrong or f"the id {min(wrong) if min(wrong) < 0 else max(wrong)} lies" in found
    expected = f"the stop id {early[0][0]} stands at {early[0][1]}," if early and not wrong else ""
    assert (expected in found) and ("stands at" in found) == bool(expected)


@given(
    st.lists(st.integers(-1, VOCAB) | st.sampled_from([2, 3]) | st.integers(4, VOCAB - 1), max_size=30),
    st.integers(0, 30),
    st.integers(1, 30),
)
def test_a_beginning_is_checked_piece_by_piece_as_in_one(ids: list[int], cut: int, limit: int) -> None:
    asked = request(limit=limit)
    whole = check_reply(asked, reply(ids, Finish.ABORT), VOCAB)
    pieces = [check_beginning(asked, ids[:cut], 0, VOCAB), check_beginning(asked, ids, min(cut, len(ids)), VOCAB)]
    assert (whole is None) == (pieces == [None, None])
