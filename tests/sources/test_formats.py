import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.errors import SourceError
from draftmill.recipe import FORMATS
from draftmill.sources import formats
from draftmill.sources.fault import RowFault
from draftmill.sources.history import Recorded
from draftmill.sources.tokenized import Tokenized

ASK = {"role": "user", "content": "hi"}
MESSAGES: dict[str, Any] = {"messages": [ASK], "prompt": "hi"}
SHAREGPT: dict[str, Any] = {"conversations": [{"from": "human", "value": "hi"}]}
TURNS: dict[str, Any] = {"turns": ["hi"]}
PROMPT: dict[str, Any] = {"prompt": "hi"}


ANSWER = {"role": "assistant", "content": "hello"}
THOUGHT: dict[str, Any] = {"conversations": [*SHAREGPT["conversations"], {"from": "gpt", "value": "<think>a</think>b"}]}
CALLED: dict[str, Any] = {
    "conversations": [*SHAREGPT["conversations"], {"from": "gpt", "value": "<tool_call>{'name': 'f'}</tool_call>"}]
}
AGENT = {"agent": "main", **ASK}
NEITHER: dict[str, Any] = {"messages": [{"role": "user", "content": " "}], "prompt": "hi"}  # messages, but unreadable


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([MESSAGES] * 3, "messages"),
        ([SHAREGPT] * 3, "sharegpt"),
        ([{"conversations": [ASK]}], "sharegpt"),
        ([TURNS], "turns"),
        ([PROMPT], "prompt"),
        ([MESSAGES, PROMPT, PROMPT], "prompt"),  # it reads all three
        ([MESSAGES, MESSAGES, NEITHER, MESSAGES], "messages"),  # not the text that every row has
        ([NEITHER, NEITHER, NEITHER, MESSAGES], "prompt"),  # unless hardly any row can be read otherwise
        ([TURNS, TURNS, PROMPT], "turns"),
        ([{"messages": [ANSWER]}], "messages"),  # recognised, if not readable
        ([{"messages": json.dumps([ASK])}], "messages"),
        ([{"data": ["hi", "hello"], "id": "0"}], "ultrachat"),
        ([{"instruction": "hi", "input": "", "output": "hello"}], "alpaca"),
        ([{"instruction": "hi"}], "prompt"),
        ([{"system": "SYSTEM: s", "chat": "USER: hi"}], "glaive"),
        ([{"question": [[ASK]], "function": []}], "bfcl"),
        ([{"question": "hi", "answer": "hello"}], "prompt"),
        ([{"prompt": "def f():", "entry_point": "f", "test": ""}], "humaneval"),
        ([{"input": "hi", "output": "hello", "unit_tests": "[]"}], "opencodeinstruct"),
        ([{"input": "hi", "output": "hello"}], "prompt"),
        ([{"history": [AGENT], "trajectory": [{"action": "ls"}], "info": {}}], "sweagent"),
        ([{"messages": [AGENT]}], "sweagent"),
        ([{"trajectory": [{"role": "ai", "text": "hi"}, {"role": "user", "text": "hi"}]}], "trajectory"),
        ([{"trajectory": [ASK, ANSWER]}], "trajectory"),
        ([CALLED] * 2 + [SHAREGPT] * 10, "hermes"),  # its marks need not stand in every row
        ([CALLED] + [SHAREGPT] * 19, "sharegpt"),
        ([THOUGHT] * 2 + [SHAREGPT] * 10, "reasoning"),
        ([{"input": "hi", "output": "<think>a</think>b"}], "reasoning"),
        ([{"input_ids": [1, 2], "loss_mask": [0, 1]}], "tokenized"),
        ([{"input_ids": [1, 2], "attention_mask": [1, 1], **MESSAGES}], "tokenized"),
    ],
)
def test_auto(rows: list[dict[str, Any]], name: str) -> None:
    chosen, why = formats.choose("auto", rows, None, "data")
    assert name == chosen.NAME
    assert f"of the first {len(rows)} rows can be read so" in why


@pytest.mark.parametrize(
    ("row", "column", "name"),
    [
        ({"dialog": [ASK], **PROMPT}, "dialog", "messages"),
        ({"dialog": [{"from": "human", "value": "hi"}], **PROMPT}, "dialog", "sharegpt"),
        ({"dialog": ["hi", "hello"], **PROMPT}, "dialog", "turns"),
        ({"data": ["hi", "hello"], **PROMPT}, "data", "ultrachat"),
        ({"steps": [{"role": "user", "text": "hi"}], **PROMPT}, "steps", "trajectory"),
        ({"instruction": "a", "output": "b", "task": "c"}, "task", "prompt"),
        ({"ids": [1, 2], "loss_mask": [0, 1], **PROMPT}, "ids", "tokenized"),
    ],
)
def test_auto_in_a_column_of_another_name(row: dict[str, Any], column: str, name: str) -> None:
    assert name == formats.choose("auto", [row], column, "data")[0].NAME


def test_nothing_recognised_lists_columns_and_formats() -> None:
    with pytest.raises(SourceError, match="data: no known format in the first 2 rows") as caught:
        formats.choose("auto", [{"id": 1, "body": "x"}, {"id": 2, "title": "y"}], None, "data")
    assert "the columns are id (a number), body (a string), title (a string)" in caught.value.advice
    assert f"the formats are {', '.join(f.NAME for f in formats.FORMATS)};" in caught.value.advice
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
    assert caught.value.advice == f"{hint}the formats are {', '.join(formats.known())}"


def test_a_named_format() -> None:
    assert formats.choose("prompt", [MESSAGES], None, "data")[0].NAME == "prompt"
    assert formats.choose("ultrachat", [{"dialog": ["hi"]}], "dialog", "data")[0].NAME == "ultrachat"
    with pytest.raises(SourceError, match="data: no turns in the first 1 rows: no column 'turns'"):
        formats.choose("turns", [MESSAGES], None, "data")


KEYS = (
    *("messages", "conversations", "turns", "prompt", "instruction", "input", "output", "instances", "history", "data"),
    *("system", "tools", "functions", "chat", "question", "function", "trajectory", "entry_point", "unit_tests"),
    *("input_ids", "loss_mask", "labels", "attention_mask"),
)
PARTS = (
    *(
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
    ),
    *("agent", "thought", "action", "is_demo", "system_prompt", "tool_call_id", "tool_call_ids", "parameters"),
)
TEXTS = (
    *("", "user", "gpt", "tool", "tool_call", "text", "{}", "[[]]", "{", "-", "<think>a", '[{"role": "user"}]'),
    *("<tool_call>{'name': 'f'}</tool_call>", "<tool_response>a", "<functioncall>", "<tools>[{}]</tools>"),
    *("USER: a\n\nASSISTANT: <functioncall> {}", "with access to the following functions. Use them if required - {}"),
)
SCALAR = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 1) | st.sampled_from(TEXTS)
ANYTHING = st.recursive(
    SCALAR, lambda j: st.lists(j, max_size=3) | st.dictionaries(st.sampled_from(PARTS), j, max_size=4), max_leaves=12
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "ai"]), "content": st.sampled_from(TEXTS)},
    optional=dict.fromkeys(PARTS[6:], ANYTHING),
)
COLUMN = ANYTHING | st.lists(MESSAGE, max_size=4) | st.lists(st.integers(-100, 9), max_size=4)


@settings(deadline=None, max_examples=400)
@given(row=st.dictionaries(st.sampled_from(KEYS), COLUMN, max_size=5), column=st.none() | st.sampled_from(KEYS))
def test_any_row_is_a_conversation_or_a_fault(row: dict[str, Any], column: str | None) -> None:
    for candidate in formats.FORMATS:
        why = candidate.recognise(row, column)
        assert why is None or why
        try:
            read = candidate.read(row, column)
        except RowFault as fault:
            assert fault.reason
            continue
        assert why or column or candidate in formats.DIALECTS, "what can be read is also recognised"
        if isinstance(read, Tokenized):
            assert len(read.input_ids) == len(read.loss_mask) and 1 in read.loss_mask
            continue
        assert read.prompt.messages[-1]["role"] in ("user", "tool")
        assert all(isinstance(m["content"], str) for m in read.prompt.messages + read.later)
        again = formats.named("messages", "").read({"messages": read.prompt.messages, "tools": read.prompt.tools})
        assert again == Recorded(read.prompt)


def test_the_recipe_knows_every_format() -> None:
    assert set(FORMATS) == set(formats.known())
