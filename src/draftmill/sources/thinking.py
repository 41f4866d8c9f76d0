"""Thinking that a dataset recorded inside the text of an answer: ``<think>…</think>`` and its like.

It is another model's, or an earlier sampling's, and no template would put it back where it stood: it is left out.
"""

import re

_MARKS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
_OPENING = re.compile(r"\s*(" + "|".join(map(re.escape, _MARKS)) + ")")
_CLOSING = re.compile(r"^[ \t]*(?:</think>|◁/think▷)[ \t]*$", re.MULTILINE)
_SOLUTION = re.compile(r"\s*<\|begin_of_solution\|>\s*(.*?)\s*(?:<\|end_of_solution\|>\s*)?\Z", re.DOTALL)


def without(text: str) -> str:
    """The answer without the thinking before it; the same text where there is none.

    Thinking that never ends is all there is. One whose opening mark is missing stood in the prompt of its time.
    """
    while (rest := _behind(text)) is not None or (rest := _solution(text)) is not None:
        text = rest
    return text


def is_in(text: str) -> bool:
    """Whether an answer begins with thinking."""
    return _behind(text) is not None


def is_prescribed(system: str) -> bool:
    """Whether a system prompt asks for thinking between marks, as OpenThoughts' does."""
    return any(opening in system and closing in system for opening, closing in _MARKS.items())


def _behind(text: str) -> str | None:
    if opening := _OPENING.match(text):
        return text[opening.end() :].partition(_MARKS[opening[1]])[2].lstrip()
    closing = _CLOSING.search(text) if "/" in text else None  # not yet opened: on a line of its own, else it is prose
    return text[closing.end() :].lstrip() if closing else None


def _solution(text: str) -> str | None:
    solution = _SOLUTION.match(text)
    return solution[1] if solution else None
