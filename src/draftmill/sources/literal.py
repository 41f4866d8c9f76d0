"""Values that were written as JSON by programs that did not write JSON: Python literals, line ends inside strings.

JSON is tried first. What comes back can always be written as JSON again.
"""

import ast
import json
import warnings
from typing import Any

import msgspec

from draftmill.sources import json_text
from draftmill.sources.fault import RowFault

_NOT_SO = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)
_NAMES = {"true": True, "false": False, "null": None}


def value(text: str) -> Any:
    """The value of a text: JSON, JSON with raw control characters, or a Python literal. Raises RowFault, JSON's own."""
    try:
        return json_text.value(text)
    except RowFault as fault:
        for read in (_decoder.decode, _python):
            try:
                return _plain(read(text))
            except _NOT_SO:
                continue
        raise fault


def values(text: str) -> list[Any]:
    """The values that stand one after the other in a text, with or without commas; an array alone is its items.

    Raises RowFault where something else stands between them.
    """
    found: list[Any] = []
    rest = text.strip()
    while rest:
        try:
            item, end = _decoder.raw_decode(rest)
            item = _plain(item)
        except _NOT_SO:
            item, end = value(rest), len(rest)
        found.append(item)
        rest = rest[end:].lstrip(" \t\r\n,")
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def _plain(item: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(item))


def _python(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes such as \d in somebody's pattern
        return ast.literal_eval(_Names().visit(ast.parse(text.strip(), mode="eval")))


class _Names(ast.NodeTransformer):
    """A literal may mix both languages: ``{'a': true}``."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in _NAMES:
            _refuse(node.id)
        return ast.Constant(_NAMES[node.id])


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no value")


_decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
