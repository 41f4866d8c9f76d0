"""What a report gathers, and what it says that it does not know."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.watch.lengths import Histogram
from draftmill.watch.report.facts import Facts, even_bins, gather, json_of
from draftmill.watch.report.verification import Check, Verification, read_verification
from draftmill.watch.stats import RunWatch
from tests.watch.folders import NOW, append, begin, completion, done, event, failure, load


def facts_of(path: Path, samples: int = 0) -> Facts:
    return gather(RunWatch(path, now=lambda: NOW + 100), samples)


def unknown(facts: Facts) -> set[str]:
    return {it.what for it in facts.not_known}


def test_a_run_that_ended(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "chat", "budget": 30}, {"name": "code"}, sampling={"temperature": 0.7})
    append(folder.events, event(NOW, "milling"), event(NOW + 90, "ended", "run", "done"))
    append(folder.dataset("chat").journal, *(completion(n, 10, "chat") for n in range(5)))
    append(folder.dataset("code").errors, failure(1, "no", "code"))
    for t in range(0, 90, 5):
        append(folder.load, done(NOW + t, chat=(1, 0, 10 * t, 5)), load(NOW + t, kv_used=50, kv_total=100))
    append(folder.load, load(NOW + 90))
    append(
        folder.dataset("chat").drift, {"figure": {"answers": 5, "drifted": 1, "reasons": {"tokenisation": 1}}, "new": 1}
    )
    facts = facts_of(tmp_path)
    assert facts.not_known == []
    assert (facts.recipe.model, facts.recipe.sampling["temperature"]) == ("m", 0.7)
    assert [p.tokens for p in facts.timeline][-1] == {"chat": 855}
    assert facts.drift["chat"].drifted == 1
    assert sum(n for *_, n in facts.lengths["chat"]) == 5 and facts.lengths["code"] == []
    written = msgspec.json.decode(json_of(facts))
    assert written["figures"]["total"]["generated"] == 50 and written["verification"] is None
    assert [e["kind"] for e in written["events"]] == ["milling", "ended"]


def test_a_run_that_is_on(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "chat"})
    append(folder.events, event(NOW + 95, "milling"))
    append(folder.load, load(NOW + 95), load(NOW + 97))
    facts = facts_of(tmp_path)
    assert unknown(facts) == {"how it ends", "tokens over time", "KV cache over time"}


def test_a_folder_of_another_version(tmp_path: Path) -> None:
    line = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 9}}
    append(tmp_path / "B1" / "raw_responses.jsonl", line, {"what": "is this"})
    facts = facts_of(tmp_path)
    assert unknown(facts) == {
        "what was to be done",
        "the course of the run",
        "events",
        "prompts of B1",
        "B1/raw_responses.jsonl",
    }
    assert facts.recipe.seed is None and facts.figures.total.generated == 9


def test_an_empty_folder(tmp_path: Path) -> None:
    assert "datasets" in unknown(facts_of(tmp_path))


def test_samples_that_cannot_be_decoded_are_told_once(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "chat"})
    append(folder.dataset("chat").journal, *(completion(n, 10, "chat") for n in range(5)))
    facts = facts_of(tmp_path, samples=3)
    assert facts.samples == []
    (why,) = [it.why for it in facts.not_known if it.what == "samples of chat"]
    assert "no tokenizer of its own" in why


def test_a_drift_file_that_cannot_be_read(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "chat"})
    folder.dataset("chat").drift.write_bytes(b'{"figure": {"answers": "many"}}')
    facts = facts_of(tmp_path)
    assert facts.drift == {} and "drift of chat" in unknown(facts)


@given(st.lists(st.integers(0, 40_000), min_size=1, max_size=60), st.integers(1, 50))
def test_even_bins_hold_every_answer_where_it_is(tokens: list[int], number: int) -> None:
    histogram = Histogram()
    for n in tokens:
        histogram.add(n)
    bins = even_bins(histogram, number)
    assert len(bins) <= number
    assert sum(n for *_, n in bins) == pytest.approx(len(tokens), abs=0.01 * len(bins))
    assert [b[0] for b in bins][1:] == [b[1] for b in bins][:-1]
    assert bins[0][0] == 0 and bins[-1][0] <= max(tokens) < bins[-1][1]
    width = bins[0][1]
    for start, below, n in bins:  # a bucket is a 64th of its length wide: no answer is further off
        if n:
            assert any(start - t / 64 - width <= t <= below + t / 64 for t in tokens)


@pytest.mark.parametrize(
    ("text", "checks", "not_understood"),
    [
        (b"[]", [], 0),
        (
            b'{"checks": [{"name": "mask", "severity": "error", "count": 2, "share": 0.5, "message": "off by one"}]}',
            [Check("mask", "error", 2, 0.5, "off by one")],
            0,
        ),
        (
            b'[{"name": "a", "count": "2", "share": true, "message": 7, "more": []}, {"id": 3}, 9]',
            [Check("a")],
            2,
        ),
        (b'{"checks": {"a": {"count": 1}, "b": null}}', [Check("a", count=1)], 1),
    ],
)
def test_verification_is_read_as_far_as_it_is_understood(
    tmp_path: Path, text: bytes, checks: list[Check], not_understood: int
) -> None:
    (tmp_path / "verification.json").write_bytes(text)
    assert read_verification(tmp_path / "verification.json") == (
        Verification(checks, not_understood=not_understood),
        None,
    )


def test_verification_as_verify_writes_it(tmp_path: Path) -> None:
    shown = {"where": "chat/tokenized_data.jsonl:7", "text": "and and", "remark": "period 2"}
    check = {"name": "loop", "severity": "warning", "count": 3, "looked": 60, "share": 0.05, "threshold": 0.1}
    check |= {"above": False, "message": "repeats", "advice": "look", "datasets": {"chat": 3}, "examples": [shown]}
    held = {
        "draftmill": "0.1.0",
        "rows": {"chat": 60},
        "passed": True,
        "checks": [check],
        "not_made": {"a": "no model"},
    }
    (tmp_path / "verification.json").write_bytes(msgspec.json.encode(held))
    found, fault = read_verification(tmp_path / "verification.json")
    assert fault is None and found and found.passed is True and found.not_made == {"a": "no model"}
    (read,) = found.checks
    assert (read.count, read.looked, read.above, read.fires) == (3, 60, False, False)  # within its threshold
    assert read.examples[0].remark == "period 2"


@pytest.mark.parametrize("text", [b"", b"{", b"7", b'{"passed": true}', b"\xff"])
def test_verification_that_is_not_understood_is_told(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "verification.json").write_bytes(text)
    found, fault = read_verification(tmp_path / "verification.json")
    assert found is None and fault and fault[0] == "verification"


def test_no_verification_is_no_fault(tmp_path: Path) -> None:
    assert read_verification(tmp_path / "verification.json") == (None, None)


def test_without_samples_no_piece_of_an_answer_is_in_it(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "chat"})
    example = {"where": "position 1", "generated": "secret", "rendered": "secret"}
    append(folder.dataset("chat").drift, {"figure": {"answers": 5, "drifted": 1, "examples": [example]}})
    check = {"name": "loop", "count": 1, "examples": [{"text": "secret"}]}
    (tmp_path / "verification.json").write_bytes(msgspec.json.encode([check]))
    assert b"secret" in json_of(facts_of(tmp_path, samples=1))
    assert b"secret" not in json_of(facts_of(tmp_path, samples=0))
