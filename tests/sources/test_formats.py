from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.errors import SourceError
from draftmill.sources import formats
from draftmill.sources.fault import RowFault

ASK = {"role": "user", "content": "hi"}
MESSAGES: dict[str, Any] = {"messages": [ASK], "prompt": "hi"}
SHAREGPT: dict[str, Any] = {"conversations": [{"from": "human", "value": "hi"}]}
TURNS: dict[str, Any] = {"turns": ["hi"]}
PROMPT: dict[str, Any] = {"prompt": "hi"}


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([MESSAGES] * 3, "messages"),
        ([SHAREGPT] * 3, "sharegpt"),
        ([{"conversations": [ASK]}], "sharegpt"),
        ([TURNS], "turns"),
        ([PROMPT], "prompt"),
        ([MESSAGES, PROMPT, PROMPT], "prompt"),  # it reads all three
        ([TURNS, TURNS, PROMPT], "turns"),
        ([{"messages": [{"role": "assistant", "content": "hi"}]}], "messages"),  # recognised, if not readable
    ],
)
def test_auto(rows: list[dict[str, Any]], name: str) -> None:
    chosen, why = formats.choose("auto", rows, None, "data")
    assert name == chosen.NAME
    assert f"of the first {len(rows)} rows can be read so" in why


def test_nothing_recognised_lists_columns_and_formats() -> None:
    with pytest.raises(SourceError, match="data: no known format in the first 2 rows") as caught:
        formats.choose("auto", [{"id": 1, "body": "x"}, {"id": 2, "title": "y"}], None, "data")
    assert "the columns are id, body, title" in caught.value.advice
    assert "auto, messages, sharegpt, turns, prompt" in caught.value.advice
    assert formats.choose("auto", [{"id": 1, "body": "x"}], "body", "data")[0].NAME == "prompt"


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(SourceError) as caught:
        formats.choose("auto", [PROMPT], "promt", "data")
    assert caught.value.advice.startswith("there is no column 'promt', did you mean prompt?")


@pytest.mark.parametrize(
    ("name", "hint"), [("sharegtp", "did you mean sharegpt? "), ("Messages", "did you mean messages? "), ("xml", "")]
)
def test_an_unknown_name(name: str, hint: str) -> None:
    with pytest.raises(SourceError, match=f"data: unknown format '{name}'") as caught:
        formats.named(name, "data")
    assert caught.value.advice == f"{hint}the formats are auto, messages, sharegpt, turns, prompt"


def test_a_named_format() -> None:
    assert formats.choose("prompt", [MESSAGES], None, "data")[0].NAME == "prompt"
    with pytest.raises(SourceError, match="data: no turns in the first 1 rows: no column 'turns'"):
        formats.choose("turns", [MESSAGES], None, "data")


KEYS = (
    "messages",
    "conversations",
    "turns",
    "prompt",
    "instruction",
    "input",
    "instances",
    "system",
    "tools",
    "functions",
)
PARTS = (
    "role",
    "from",
    "content",
    "value",
    "type",
    "text",
    "tool_calls",
    "function_call",
    "function",
    "name",
    "arguments",
)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "user", "gpt", "tool_call", "text", "{}", "[[]]", "{"])
)
ANYTHING = st.recursive(
    SCALAR, lambda j: st.lists(j, max_size=3) | st.dictionaries(st.sampled_from(PARTS), j, max_size=4), max_leaves=12
)


@settings(deadline=None)
@given(row=st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=4), column=st.none() | st.sampled_from(KEYS))
def test_any_row_is_a_prompt_or_a_fault(row: dict[str, Any], column: str | None) -> None:
    for candidate in formats.FORMATS:
        why = candidate.recognise(row, column)
        assert why is None or why
        try:
            conversation = candidate.read(row, column)
        except RowFault as fault:
            assert fault.reason
            continue
        assert why, "what can be read is also recognised"
        assert conversation.messages[-1]["role"] in ("user", "tool")
        assert all(isinstance(m["content"], str) for m in conversation.messages)
        again = formats.named("messages", "").read({"messages": conversation.messages, "tools": conversation.tools})
        assert again == conversation
