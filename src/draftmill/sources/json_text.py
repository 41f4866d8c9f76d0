"""JSON text to values, strictly, with the true reason and place where it is not JSON.

msgspec decodes fast but names some faults wrongly (a lone surrogate is "truncated" to it), so a text that it refuses
is looked at again by the standard library, which says what is wrong and where.
"""

import json
import re
from typing import Any

import msgspec

from draftmill.sources.fault import RowFault

_STRING_OR_CONSTANT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:NaN|Infinity)')
_SURROGATE = re.compile(  # a pair (a whole character), a lone half (the group), or any other escape
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


def value(text: bytes | str) -> Any:
    """The value of one JSON text. Raises RowFault with the kind of the fault and its place, counted from 1."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise RowFault("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise RowFault(_diagnose(text, str(error))) from None


def row(text: bytes | str) -> dict[str, Any]:
    """One row: a JSON text that must be an object."""
    decoded = value(text)
    if not isinstance(decoded, dict):
        raise RowFault(f"the row is {kind(decoded)}, not a JSON object")
    return decoded


def written(item: object) -> str:
    """A value as the JSON text that a person would read."""
    return json.dumps(item, ensure_ascii=False, default=str)


def kind(item: object) -> str:
    """What a decoded value is, in words."""
    return "null" if item is None else _KINDS.get(type(item), f"a {type(item).__name__}")


def _diagnose(data: bytes | str, message: str) -> str:
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"not valid UTF-8: byte 0x{error.object[error.start]:02x} at byte {error.start + 1}"
    try:
        json.loads(text)
    except RecursionError:
        return "the JSON is nested too deeply"
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            return f"the JSON is torn: the string that starts at {_place(text, error.pos)} does not end"
        what = error.msg.removesuffix(" at").lower()
        if error.pos >= len(text.rstrip()):
            return f"the JSON is torn: it ends at {_place(text, error.pos)} ({what})"
        return f"not valid JSON at {_place(text, error.pos)}: {what}"
    except ValueError:
        return "a number in it has thousands of digits"
    for match in _STRING_OR_CONSTANT.finditer(text):
        if match[0][0] != '"':
            return f"{match[0]} at {_place(text, match.start())} is not JSON"
        for escape in _SURROGATE.finditer(match[0]):
            if escape[1]:
                place = _place(text, match.start() + escape.start())
                return f"lone surrogate {escape[1]} at {place}: half a character"
    return f"not readable as JSON: {message[0].lower()}{message[1:]}"


def _place(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    column = f"column {position - start + 1}"
    return f"line {text.count(chr(10), 0, position) + 1} {column}" if "\n" in text else column
