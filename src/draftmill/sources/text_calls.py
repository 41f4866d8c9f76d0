"""Tool calls and their results as text inside turns, and the tools in a system prompt: lifted out into the schema.

Hermes and what follows it: ``<tools>…</tools>``, ``<tool_call>{"name", "arguments"}</tool_call>`` and
``<tool_response>…</tool_response>``. Glaive: ``<functioncall> {"name": …, "arguments": '{…}'}``. Many of them are
Python literals, or JSON inside single quotes.
"""

import re
from typing import Any

from draftmill.records import Message, Tool
from draftmill.sources import canonical, json_text, literal
from draftmill.sources.fault import RowFault

_CALL = re.compile(
    r"<tool_call>(.*?)(?:</tool_call>|\Z)"
    r"|<functioncall>(.*?)(?:</functioncall>|<\|endoftext\|>|(?=<functioncall>)|\Z)",
    re.DOTALL,
)
_RESULT = re.compile(r"<tool_response>\s*(.*?)\s*(?:</tool_response>|\Z)", re.DOTALL)
_TOOLS = re.compile(r"<tools>\s*([\[{].*?)\s*</tools>", re.DOTALL)
# how to call, from the first word to the example: what a chat template says in its own words where there are tools
_HOW_TO_CALL = re.compile(r"(?:You are a function calling AI model\b|# Tools\b).*</tool_call>", re.DOTALL)
_QUOTED = re.compile(
    r"""\{\s*["']name["']\s*:\s*["']([^"']+)["']\s*,\s*["']arguments["']\s*:\s*'(.*)'\s*,?\s*\}""", re.DOTALL
)


def are_in(text: str) -> bool:
    """Whether a turn or a system prompt holds calls, results or tools as text."""
    return any(mark in text for mark in ("<tool_call>", "<tool_response>", "<functioncall>")) or bool(
        _TOOLS.search(text)
    )


def calls(text: str, place: str) -> tuple[str, list[dict[str, Any]]]:
    """What an answer says beside its calls, and these, canonical. Raises RowFault for a call that cannot be read."""
    blocks = [block[1] if block[1] is not None else block[2] for block in _CALL.finditer(text)]
    if not blocks:
        return text, []
    try:
        raw = [item for block in blocks for item in _objects(block)]
    except RowFault as fault:
        raise RowFault(f"{place}: a tool call in its content: {fault.reason}") from None
    if not raw:
        raise RowFault(f"{place}: a tool call in its content is empty")
    return _CALL.sub("", text).strip(), canonical.tool_calls(raw, place)


def results(text: str) -> list[Message]:
    """The results in a turn that holds nothing else; none where it is another turn. One that is no object is a text."""
    if not text.lstrip().startswith("<tool_response>") or _RESULT.sub("", text).strip():
        return []
    return [_result(block[1]) for block in _RESULT.finditer(text)]


def tools(text: str, place: str) -> tuple[str, list[Tool]]:
    """A system prompt without the tools in it and without how to call them, and these tools. Raises RowFault."""
    blocks = [block[1] for block in _TOOLS.finditer(text)]
    if not blocks:
        return text, []
    try:
        found = [tool for block in blocks for tool in canonical.tools(literal.values(block)) or []]
    except RowFault as fault:
        raise RowFault(f"{place}: the <tools> in its content: {fault.reason}") from None
    return _TOOLS.sub("", _HOW_TO_CALL.sub("", text)).strip(), found


def _objects(block: str) -> list[Any]:
    if quoted := _QUOTED.fullmatch(block.strip()):
        return [{"name": quoted[1], "arguments": _unquoted(quoted[2])}]
    return literal.values(block)


def _unquoted(text: str) -> Any:
    """Arguments that stand in single quotes, whether or not those inside are escaped."""
    try:
        return literal.value(text)
    except RowFault as fault:
        try:
            return literal.value(text.replace("\\'", "'"))
        except RowFault:
            raise fault from None


def _result(block: str) -> Message:
    try:
        value = literal.value(block)
    except RowFault:
        value = None
    if not isinstance(value, dict) or "content" not in value:
        return {"role": canonical.TOOL, "content": block}
    content = value["content"]
    message: Message = {
        "role": canonical.TOOL,
        "content": content if isinstance(content, str) else json_text.written(content),
    }
    if isinstance(id := value.get("tool_call_id"), str) and id:
        message["tool_call_id"] = id
    if isinstance(name := value.get("name"), str) and name:
        message["name"] = name
    return message
