"""Findings about a model, held against the data at hand."""

from typing import Any

import msgspec
import pytest

from draftmill.mill.findings import about, together
from draftmill.mill.prepared import Prepared
from draftmill.render.findings import Code, Finding
from tests.render import families


def prepared(**values: Any) -> Prepared:
    data: dict[str, Any] = {field.name: 0 for field in msgspec.structs.fields(Prepared) if field.required}
    texts = ("format", "why", "special_text_first", "longest_where", "tools_as_text_first")
    data |= dict.fromkeys(texts, "") | {"unread_reasons": [], "special_text": {}, "concerns": {}}
    return msgspec.convert(data | {"positions": 9} | values, Prepared)


@pytest.mark.parametrize(
    ("family", "report", "codes"),
    [
        ("smollm2", {}, set()),
        ("smollm2", {"concerns": {"tools": 1}}, {Code.TOOLS_IGNORED}),
        ("smollm2", {"concerns": {"tools": 1, "calls": 1}}, {Code.TOOLS_IGNORED, Code.CALLS_IGNORED}),
        ("qwen3", {"concerns": {"tools": 1, "answers": 1, "system": 1}}, set()),
        ("qwen3", {"concerns": {"answers": 1, "turns": 1}}, {Code.REASONING_DROPPED}),
        ("kimi", {}, {Code.THINKING_OPENED}),
        ("gpt-oss", {}, {Code.DATE_INSERTED}),
        ("gemma", {"concerns": {"system": 2}}, set()),
        ("gemma", {"concerns": {"alternation": 1}}, {Code.TURNS_MUST_ALTERNATE}),
        ("qwen3", {"tools_as_text": 4}, {Code.TOOLS_AS_TEXT}),
        ("smollm2", {"tools_as_text": 4}, set()),  # it has no form of its own that they could have instead
    ],
)
def test_what_matters_to_a_dataset(family: str, report: dict[str, Any], codes: set[Code]) -> None:
    found = about(prepared(**report), families.plain_model(family).dialect)
    assert {finding.code for finding in found} == codes
    assert len(found) == len(codes)


@pytest.mark.parametrize(
    ("history", "turns", "ends"), [("served", 3, True), ("recorded", 3, False), ("served", 1, False)]
)
def test_a_conversation_ends_only_where_its_answers_are_history(history: Any, turns: int, ends: bool) -> None:
    report = prepared(concerns={"calls": 1}, most_turns=turns)
    (found,) = about(report, families.plain_model("smollm2").dialect, history)
    assert found.code is Code.CALLS_IGNORED and found.meaning.startswith("results stand without their calls")
    assert ("a conversation ends" in found.meaning) is ends


def test_each_finding_once_with_its_datasets() -> None:
    one, other = Finding(Code.DATE_INSERTED, "a", "b"), Finding(Code.TOOLS_IGNORED, "c", "d")
    assert together({"x": [one], "y": [one, other], "z": []}) == {one: ["x", "y"], other: ["y"]}
