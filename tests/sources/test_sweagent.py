"""Rows in the shape of SWE-agent's ``.traj`` files."""

import json
from typing import Any

import pytest

from draftmill.records import Message
from draftmill.sources import sweagent
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, call, system, tool, user

SYSTEM = {"role": "system", "content": "You are a programmer.", "agent": "main", "message_type": "system_prompt"}
ISSUE = {"role": "user", "content": "Fix the colon.", "agent": "main", "message_type": "observation"}


def action(content: Any, thought: str, do: str, calls: Any = None) -> dict[str, Any]:
    made = {"tool_calls": calls} if calls is not None else {}
    return {"role": "assistant", "content": content, "thought": thought, "action": do, "agent": "main", **made}


def raw_call(name: str, arguments: Any, id: str) -> dict[str, Any]:
    return {"function": {"arguments": arguments, "name": name}, "id": id, "type": "function"}


def seen(content: str, *ids: str) -> dict[str, Any]:
    return {
        "role": "tool",
        "content": content,
        "agent": "main",
        "message_type": "observation",
        "tool_call_ids": list(ids),
    }


GOLDEN: list[tuple[dict[str, Any], list[Message], list[Message]]] = [
    (  # tool calls; the submission's result is answered by nobody
        {
            "environment": "swe_main",
            "trajectory": [{"action": "ls", "observation": "a.py", "response": "…", "thought": "…", "state": "{}"}],
            "history": [
                SYSTEM,
                ISSUE,
                action("Look.", "Look.", "find_file a.py", [raw_call("find_file", '{"file_name":"a.py"}', "c1")]),
                seen("Found 1\r\n", "c1"),
                action("Done.", "Done.", "submit", [raw_call("submit", "{}", "c2")]),
                seen("diff --git", "c2"),
            ],
            "info": {"exit_status": "submitted"},
        },
        [
            system("You are a programmer."),
            user("Fix the colon."),
            assistant("Look.", call("find_file", {"file_name": "a.py"}, "c1")),
            tool("Found 1\r\n", tool_call_id="c1"),
        ],
        [assistant("Done.", call("submit", {}, "c2")), tool("diff --git", tool_call_id="c2")],
    ),
    (  # actions in the text, observations as the user's
        {
            "history": [
                SYSTEM,
                ISSUE,
                action("List.\n```\nls -F\n```", "List.\n", "ls -F\n"),
                {"role": "user", "content": "a.py", "agent": "primary", "message_type": "observation"},
                action("Submit.\n```\nsubmit\n```", "Submit.\n", "submit\n"),
            ]
        },
        [system("You are a programmer."), user("Fix the colon."), assistant("List.\n```\nls -F\n```"), user("a.py")],
        [assistant("Submit.\n```\nsubmit\n```")],
    ),
    (  # demonstrations at the head, as one text and as turns
        {
            "history": [
                SYSTEM,
                {"role": "user", "content": "Here is a demonstration …", "agent": "main", "is_demo": True},
                {
                    "role": "assistant",
                    "content": "demo",
                    "agent": "main",
                    "is_demo": True,
                    "thought": "",
                    "action": "ls",
                },
                {**ISSUE, "is_demo": False},
                action("Go.", "Go.", "ls"),
            ]
        },
        [system("You are a programmer."), user("Fix the colon.")],
        [assistant("Go.")],
    ),
    (  # content that must be put together, parts, calls as one text, null beside calls
        {
            "history": [
                {**SYSTEM, "content": [{"type": "text", "text": "You are a programmer."}]},
                ISSUE,
                action("", "Look.", "ls"),
                {"role": "user", "content": [{"type": "text", "text": "a.py"}], "agent": "main"},
                action(None, "Open.", "open a.py", json.dumps([raw_call("open", {"path": "a.py"}, "c3")])),
                seen("", "c3"),
                action("", "", "submit"),
            ]
        },
        [
            system("You are a programmer."),
            user("Fix the colon."),
            assistant("Look.\n```\nls\n```"),
            user("a.py"),
            assistant("Open.", call("open", {"path": "a.py"}, "c3")),
            tool("", tool_call_id="c3"),
        ],
        [assistant("```\nsubmit\n```")],
    ),
    (  # SWE-smith: the same in a column of messages that is one text
        {"instance_id": "x", "resolved": True, "messages": json.dumps([SYSTEM, ISSUE, action("Go.", "Go.", "ls")])},
        [system("You are a programmer."), user("Fix the colon.")],
        [assistant("Go.")],
    ),
    ({"history": [SYSTEM, ISSUE]}, [system("You are a programmer."), user("Fix the colon.")], []),  # not begun
]


@pytest.mark.parametrize(("row", "prompt", "later"), GOLDEN)
def test_golden_rows(row: dict[str, Any], prompt: list[Message], later: list[Message]) -> None:
    assert "is a list of messages with role and '" in str(sweagent.recognise(row))
    read = sweagent.read(row)
    assert read.prompt.messages == prompt
    assert read.later == later


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            {"trajectory": [{"action": "ls", "observation": ""}]},
            "column 'trajectory' holds objects with 'action', 'observation', not messages",
        ),
        ({"history": None}, "column 'history' is null"),
        ({"history": "[{"}, "column 'history': the JSON is torn"),
        ({"history": [SYSTEM, {**ISSUE, "content": ""}]}, "message 2 (user) is empty"),
        ({"history": [SYSTEM, ISSUE, seen("a", "c1")]}, "message 3 (tool) is the result of no call"),
        (
            {"history": [SYSTEM, ISSUE, action("a", "b", "c", [raw_call("f", '{"a"', "c1")])]},
            "message 3: arguments of 'f'",
        ),
        ({"history": [SYSTEM, {**ISSUE, "role": "critic"}]}, "message 2 has the unknown role 'critic'"),
        ({"history": [SYSTEM]}, "no user or tool message"),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        sweagent.read(row)
    assert caught.value.reason.startswith(reason)
