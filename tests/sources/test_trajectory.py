"""Rows in the shape of agent trajectories on the hub: SWE-agent's and OpenHands'."""

import json
from typing import Any

import pytest

from draftmill.records import Message
from draftmill.sources import trajectory
from draftmill.sources.fault import RowFault
from tests.sources.talk import assistant, call, defined, system, tool, user


def swe(role: str, text: str | None, prompt: str | None = None) -> dict[str, Any]:
    return {"cutoff_date": "01.01.2023", "mask": False, "role": role, "system_prompt": prompt, "text": text}


def hands(role: str, content: Any, calls: Any = None, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    return {"role": role, "content": content, "name": name, "tool_call_id": id, "tool_calls": calls}


def raw_call(name: str, arguments: str, id: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


SHAPE = {"instance_id": "o__r-1", "model_name": "m", "target": True, "exit_status": "submitted", "generated_patch": ""}

GOLDEN: list[tuple[dict[str, Any], list[Message], list[Message]]] = [
    (
        {
            **SHAPE,
            "trajectory": [
                swe("system", None, "SETTING: …"),
                swe("user", "Fix it."),
                swe("ai", "Look.\n```\nls\n```"),
                swe("user", "a.py"),
                swe("ai", "```\nsubmit\n```"),
            ],
        },
        [system("SETTING: …"), user("Fix it."), assistant("Look.\n```\nls\n```"), user("a.py")],
        [assistant("```\nsubmit\n```")],
    ),
    (  # the system prompt in both places; ended by a limit, so the last observation is answered by nobody
        {"trajectory": [swe("system", "Spoken.", "Unspoken."), swe("user", "a"), swe("ai", "b"), swe("user", "c")]},
        [system("Spoken."), user("a")],
        [assistant("b"), user("c")],
    ),
    (
        {
            "repo": "r",
            "tools": json.dumps([defined("bash")]),
            "trajectory": [
                hands("system", "You are OpenHands."),
                hands("user", "Fix it."),
                hands("assistant", None, [raw_call("bash", '{"command": "ls"}', "t1")]),
                hands("tool", "a.py", None, "t1", "bash"),
                hands("assistant", "Finished."),
            ],
        },
        [
            system("You are OpenHands."),
            user("Fix it."),
            assistant("", call("bash", {"command": "ls"}, "t1")),
            tool("a.py", tool_call_id="t1", name="bash"),
        ],
        [assistant("Finished.")],
    ),
    (  # parallel calls, parts, an empty result, calls at the end
        {
            "trajectory": [
                hands("user", [{"type": "text", "text": "Both."}]),
                hands("assistant", "I will.", [raw_call("bash", "{}", "t1"), raw_call("think", '{"a": "b"}', "t2")]),
                hands("tool", "", None, "t1", "bash"),
                hands("tool", [{"type": "text", "text": "ok"}], None, "t2", "think"),
                hands("assistant", None, [raw_call("finish", "{}", "t3")]),
            ]
        },
        [
            user("Both."),
            assistant("I will.", call("bash", {}, "t1"), call("think", {"a": "b"}, "t2")),
            tool("", tool_call_id="t1", name="bash"),
            tool("ok", tool_call_id="t2", name="think"),
        ],
        [assistant("", call("finish", {}, "t3"))],
    ),
    (  # the column as one text
        {
            "trajectory": json.dumps(
                [hands("user", "a"), hands("assistant", "b"), hands("user", "c"), hands("assistant", "d")]
            )
        },
        [user("a"), assistant("b"), user("c")],
        [assistant("d")],
    ),
]


@pytest.mark.parametrize(("row", "prompt", "later"), GOLDEN)
def test_golden_rows(row: dict[str, Any], prompt: list[Message], later: list[Message]) -> None:
    assert str(trajectory.recognise(row)).startswith("column 'trajectory' is a list of messages with role and ")
    read = trajectory.read(row)
    assert read.prompt.messages == prompt
    assert read.later == later
    assert read.prompt.tools == ([defined("bash")] if "tools" in row else None)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "no column 'trajectory'"),
        ({"trajectory": {"role": "user"}}, "column 'trajectory' is an object, not messages with a role"),
        ({"trajectory": [["user", "a"]]}, "column 'trajectory' is an array of an array first"),
        ({"trajectory": [swe("user", None)]}, "message 1 (user) is empty"),
        ({"trajectory": [swe("user", "a"), swe("env", "b")]}, "message 2 has the unknown role 'env'"),
        (
            {"trajectory": [hands("user", "a"), hands("tool", "b", None, "t1")]},
            "message 2 (tool) is the result of no call",
        ),
        (
            {"trajectory": [hands("user", "a"), hands("assistant", "", [raw_call("bash", '{"command": "l', "t1")])]},
            "message 2: arguments of 'bash': the JSON is torn",
        ),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        trajectory.read(row)
    assert caught.value.reason.startswith(reason)
