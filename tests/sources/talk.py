"""Canonical messages in few words."""

from typing import Any

from draftmill.records import Message, Tool


def system(content: str) -> Message:
    return {"role": "system", "content": content}


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def assistant(content: str, *calls: dict[str, Any]) -> Message:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def tool(content: str, **more: str) -> Message:
    return {"role": "tool", "content": content, **more}


def call(function: str, arguments: dict[str, Any], id: str = "") -> dict[str, Any]:
    named = {"id": id} if id else {}
    return {**named, "type": "function", "function": {"name": function, "arguments": arguments}}


def defined(function: str, **more: Any) -> Tool:
    return {"type": "function", "function": {"name": function, **more}}
