"""Rows that are none, of every format: each is told with its line and the field that is wrong, and the others go on."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet as pq

from draftmill.errors import SourceError
from draftmill.recipe import Dataset
from draftmill.records import SourceRow, TokenizedRow, UnreadRow
from draftmill.sources import formats, lines, open_source
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, call, tool, user

BROKEN_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Os'}}
LISTING = "SYSTEM: You are a helpful assistant with access to the following functions. Use them if required -\n"
AGENT = {"role": "user", "content": "Fix it.", "agent": "main"}
CODE = {"prompt": "def f():\n", "entry_point": "f", "test": ""}
SOLVED = {"input": "Add.", "output": "…", "unit_tests": "[]"}
IDS = {"input_ids": [5, 6, 7], "loss_mask": [0, 1, 1]}
DEEP = json.loads("[" * 900 + "]" * 900)


def shared(*turns: tuple[object, object], **columns: Any) -> dict[str, Any]:
    return {"conversations": [{"from": who, "value": what} for who, what in turns], **columns}


# format: a row as it should be, and rows that are none, each with the field that must be named
CASES: dict[str, tuple[dict[str, Any], list[tuple[Any, str]]]] = {
    "messages": (
        {"messages": [user("hi"), assistant("hello")], "tools": [{"name": "f", "parameters": {}}]},
        [
            ({"messages": None}, "column 'messages'"),
            ({"messages": 7}, "column 'messages'"),
            ({"messages": [[user("hi")]]}, "column 'messages'"),
            ({"messages": []}, "column 'messages'"),
            ({"other": 1}, "column 'messages'"),
            ({"messages": '[{"role": "user", "conte'}, "column 'messages'"),
            ({"messages": [{"role": "user", "content": {"text": "hi"}}]}, "message 1: content"),
            ({"messages": [{"role": "user"}]}, "message 1 (user) is empty: no content"),
            ({"messages": [user("hi"), {"content": "hi"}]}, "message 2 has no role"),
            ({"messages": [{"role": "narrator", "content": "hi"}]}, "message 1 has the unknown role 'narrator'"),
            ({"messages": [{"role": ["user"], "content": "hi"}]}, "message 1 has the unknown role"),
            ({"messages": [user("hi"), "hello"]}, "message 2"),
            ({"messages": [user("hi"), tool("3 °C", tool_call_id="c1")]}, "message 2 (tool) is the result of no call"),
            ({"messages": [user("hi"), {**assistant(""), "tool_calls": [BROKEN_CALL]}]}, "message 2: arguments of 'f'"),
            ({"messages": [user("hi"), {**assistant(""), "tool_calls": {"a": DEEP}}]}, "message 2: a tool call"),
            ({"messages": [user("hi")], "tools": "[{"}, "tools"),
            ({"messages": [user("hi")], "tools": [{"type": "retrieval"}]}, "tool 1"),
            (
                {"messages": [user([{"type": "image_url", "image_url": "x"}])]},
                "message 1 holds a part of type 'image_url'",
            ),
            ({"messages": [user("hi"), assistant(""), user("and?")]}, "message 2 (assistant) is empty: no content"),
        ],
    ),
    "sharegpt": (
        shared(("human", "hi"), ("gpt", "hello")),
        [
            (shared(("human", None)), "message 1 (user) is empty: no content"),
            (shared(("human", "hi"), ("gpt", ["a", 5])), "message 2: content"),
            (shared(("alien", "hi")), "message 1 has the unknown role 'alien'"),
            (shared((None, "hi")), "message 1 has no role"),
            (shared(("human", "hi"), ("function_call", '{"name": "f", "arguments": ')), "message 2: tool_calls"),
            (shared(("human", "hi"), ("observation", "3")), "message 2 (tool) is the result of no call"),
            (shared(("gpt", "hello")), "no user or tool message"),
            ({"conversations": {"from": "human"}}, "column 'conversations'"),
        ],
    ),
    "alpaca": (
        {"instruction": "Sort.", "input": "", "output": "a"},
        [
            ({"instruction": None, "output": "a"}, "column 'instruction'"),
            ({"instruction": "", "output": "a"}, "column 'instruction'"),
            ({"instruction": ["Sort."], "output": "a"}, "column 'instruction'"),
            ({"instruction": "Sort.", "input": {"a": 1}, "output": "a"}, "column 'input'"),
            ({"instruction": "Sort.", "output": "a", "history": [["a"]]}, "'history'"),
        ],
    ),
    "glaive": (
        {"system": LISTING + '{"name": "f"}', "chat": "USER: hi\n\n\nASSISTANT: hello <|endoftext|>"},
        [
            ({"chat": None}, "column 'chat'"),
            ({"chat": "hi"}, "column 'chat'"),
            ({"chat": "USER:\n\n\nASSISTANT: a"}, "message 1 (user) is empty: no content"),
            ({"chat": "USER: hi", "system": LISTING + "{'name'"}, "column 'system'"),
            (
                {"chat": 'USER: hi\n\n\nASSISTANT: <functioncall> {"name": "f", "arguments": \'{\'}'},
                "message 2: a tool call",
            ),
            ({"chat": "USER: hi\n\n\nFUNCTION RESPONSE: {}"}, "message 2 (tool) is the result of no call"),
        ],
    ),
    "hermes": (
        shared(("human", "hi"), ("gpt", "<tool_call>\n{'name': 'f', 'arguments': {}}\n</tool_call>")),
        [
            (shared(("human", "hi"), ("gpt", "<tool_call>{'name': 'f', 'arg</tool_call>")), "message 2: a tool call"),
            (shared(("human", "hi"), ("gpt", "<tool_call>[5]</tool_call>")), "message 2: a tool call"),
            (
                shared(("human", "hi"), ("tool", "<tool_response>3</tool_response>")),
                "message 2 (tool) is the result of no",
            ),
            (shared(("system", "<tools>[{]</tools>"), ("human", "hi")), "message 1: the <tools>"),
            (shared(("human", "hi"), tools="[{"), "tools"),
        ],
    ),
    "ultrachat": (
        {"id": "0", "data": ["hi", "hello"]},
        [
            ({"data": []}, "column 'data'"),
            ({"data": ["hi", None]}, "item 2 of 'data'"),
            ({"data": ["hi", "", "and?"]}, "item 2 of 'data'"),
            ({"data": ["hi", ["hello"]]}, "item 2 of 'data'"),
        ],
    ),
    "bfcl": (
        {"question": [[user("hi")]], "function": [{"name": "a.f", "parameters": {"type": "dict"}}]},
        [
            ({"question": [[user("hi")]]}, "column 'function'"),
            ({"question": 5, "function": []}, "column 'question'"),
            ({"question": [[user("")]], "function": []}, "message 1 (user) is empty: no content"),
            ({"question": [[user("hi")]], "function": [{"name": None}]}, "tool 1 has no function name"),
            ({"question": [[[user("hi")]]], "function": []}, "message 1"),
        ],
    ),
    "humaneval": (
        CODE,
        [
            ({**CODE, "prompt": ""}, "column 'prompt'"),
            ({**CODE, "prompt": 5}, "column 'prompt'"),
            ({"prompt": "a"}, "'entry_point'"),
        ],
    ),
    "xlam": (
        {"query": "hi", "tools": [{"name": "f", "parameters": {"a": {"type": "str"}}}]},
        [
            ({"query": "hi", "tools": [{"parameters": {"a": {"type": "str"}}}]}, "function name"),
            ({"query": None, "tools": [{"name": "f", "parameters": {"a": {"type": "str"}}}]}, "column 'query'"),
            ({"query": "hi", "tools": [{"name": "f", "parameters": {"a": 1}}]}, "parameter 'a'"),
        ],
    ),
    "opencodeinstruct": (
        SOLVED,
        [
            ({**SOLVED, "input": None}, "column 'input'"),
            ({**SOLVED, "input": " "}, "column 'input'"),
            ({"output": "a"}, "column"),
        ],
    ),
    "sweagent": (
        {"history": [AGENT, {"role": "assistant", "content": "a", "agent": "main", "thought": "", "action": "ls"}]},
        [
            ({"history": 5}, "column 'history'"),
            ({"history": [{**AGENT, "content": None}]}, "message 1 (user) is empty: no content"),
            (
                {"history": [AGENT, {**AGENT, "role": "tool", "tool_call_ids": ["c1"]}]},
                "message 2 (tool) is the result",
            ),
            ({"history": [AGENT, {"role": "assistant", "tool_calls": [BROKEN_CALL]}]}, "message 2: arguments of 'f'"),
            ({"history": [{**AGENT, "role": "environment"}]}, "message 1 has the unknown role 'environment'"),
        ],
    ),
    "trajectory": (
        {"trajectory": [{"role": "user", "text": "hi"}, {"role": "ai", "text": "a"}]},
        [
            ({"trajectory": None}, "column 'trajectory'"),
            ({"trajectory": [{"role": "ai", "text": "a"}]}, "no user or tool message"),
            ({"trajectory": [{"role": "user", "text": None}]}, "message 1 (user) is empty: no content"),
            ({"trajectory": [user("hi"), assistant("", call("f", {})), tool("a"), tool("b")]}, "message 4 (tool)"),
        ],
    ),
    "reasoning": (
        {"input": "2+2?", "output": "<think>Hm.</think>4"},
        [({"input": "-", "output": "<think>"}, "column 'input'"), ({"input": None, "output": "<think>"}, "column")],
    ),
    "turns": (
        {"turns": ["hi", "and?"]},
        [
            ({"turns": [""]}, "item 1 of 'turns'"),
            ({"turns": ["a", 5]}, "item 2 of 'turns'"),
            ({"turns": {}}, "column 'turns'"),
        ],
    ),
    "prompt": (
        {"question": "Why?"},
        [
            ({"question": None}, "column"),
            ({"question": "\n"}, "column 'question'"),
            ({"question": ["a"]}, "'question' is an"),
        ],
    ),
    "tokenized": (
        IDS,
        [
            ({"input_ids": None}, "column 'input_ids'"),
            ({"input_ids": [[5, 6]]}, "item 1 of 'input_ids'"),
            ({**IDS, "loss_mask": [0, 1]}, "'loss_mask' has 2 items"),
            ({**IDS, "loss_mask": [0, 0, 0]}, "'input_ids' is supervised"),
            ({**IDS, "labels": [-100, 7, 6]}, "item 2 of 'labels'"),
        ],
    ),
}
# lines that are no rows of any format
LINES = [
    (b'{"torn": "', "the JSON is torn"),
    (b"null", "the row is null"),
    (b"[1, 2]", "the row is an array"),
    (b'{"a": "\xff"}', "not valid UTF-8"),
    (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply"),
    (b'{"a": "' + b"x" * 50_000 + b'"}', "the line is longer than"),
]


def test_there_are_enough_of_them() -> None:
    assert sum(len(bad) for _, bad in CASES.values()) + len(LINES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_malformed_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 40_000)
    good, bad = CASES[name]
    faulty = [(json.dumps(row).encode(), field) for row, field in bad] + LINES
    head = 5 * len(bad)  # so that the format can be told
    written = [json.dumps(good).encode()] * head
    for line, _ in faulty:
        written += [line, json.dumps(good).encode()]
    (tmp_path / "d.jsonl").write_bytes(b"\n".join(written) + b"\n")
    source = open_source(Dataset(name="d", source="d.jsonl"), tmp_path)
    assert source.format == name
    rows = list(source.rows())
    assert [row.where.line for row in rows] == list(range(1, len(written) + 1))
    unread = [row for row in rows if isinstance(row, UnreadRow)]
    assert [row.where.line for row in unread] == list(range(head + 1, len(written) + 1, 2))
    for row, (line, field) in zip(unread, faulty, strict=True):
        assert field in row.reason, line[:80]
        assert str(row.where).startswith(f"{tmp_path}/d.jsonl:")
    kinds = {type(row) for row in rows} - {UnreadRow}
    assert kinds == {TokenizedRow if name == "tokenized" else SourceRow}


def test_a_schema_of_huge_depth_does_not_end_the_reading() -> None:
    nested: dict[str, Any] = {}
    for _ in range(sys.getrecursionlimit()):
        nested = {"type": "dict", "properties": {"a": nested}}
    row = {"question": [[user("hi")]], "function": [{"name": "f", "parameters": nested}]}
    plain = {**row, "function": []}
    chosen, why = formats.choose("auto", [row, plain], None, "d.parquet")
    assert chosen.NAME == "bfcl" and "1 of the first 2 rows can be read so" in why
    with pytest.raises(RowFault, match="the row is nested too deeply"):
        formats.attempt(chosen, row, None)


def test_a_parquet_file_of_another_schema(tmp_path: Path) -> None:
    pq.write_table(pyarrow.table({"messages": ["hi", "ho"], "n": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match="no known format in the first 2 rows") as caught:
        open_source(Dataset(name="d", source="b.parquet"), tmp_path)
    assert "the columns are messages (a string), n (a number)" in caught.value.advice
    pq.write_table(pyarrow.Table.from_pylist([{"messages": [user("hi")]}] * 3), tmp_path / "a.parquet")
    rows = list(open_source(Dataset(name="d", source="*.parquet"), tmp_path).rows())
    assert [isinstance(row, SourceRow) for row in rows] == [True] * 3 + [False] * 2
    assert {row.reason for row in rows if isinstance(row, UnreadRow)} == {
        "column 'messages' is a string, not messages that have a role"
    }


def test_a_gzip_file_that_is_cut_short(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(json.dumps({"prompt": f"{n} {n * n}"}).encode() + b"\n" for n in range(9000)))
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    *rows, last = open_source(Dataset(name="d", source="a.jsonl.gz"), tmp_path).rows()
    assert len(rows) > 1000 and all(isinstance(row, SourceRow) for row in rows)
    assert isinstance(last, UnreadRow) and "the gzip stream ends early: the file is cut short" in last.reason
    assert str(last.where) == f"{tmp_path}/a.jsonl.gz:{len(rows) + 1}"


def test_a_folder_in_a_files_place(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").mkdir()
    with pytest.raises(SourceError, match=r"data\.jsonl: is a folder") as caught:
        open_source(Dataset(name="d", source="data.jsonl"), tmp_path)
    assert caught.value.advice == "name its files, for example data.jsonl/*.jsonl"
