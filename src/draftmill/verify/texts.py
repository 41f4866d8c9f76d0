"""What only a tokenizer can tell of an answer: spelled-out markers, broken bytes, foreign ids, thinking, calls."""

from collections.abc import Sequence

import numpy as np

from draftmill.records import Tool
from draftmill.render.markers import Thinking
from draftmill.render.parse import parse
from draftmill.render.parts import Oddity
from draftmill.verify.habits import Habits
from draftmill.verify.lines import Ids, Row
from draftmill.verify.model import BEGINS, CALLS, GOES_ON, PARTIAL, ROLE, STOP, THINKS, Flags, Model
from draftmill.verify.tally import Tally

_LONGEST = 16  # pieces that a marker is spelled in
_ENOUGH = 16  # ids of an answer that tell a tokenizer
_FIRST = 256  # of them that are looked at
_LONG = 128  # ids that tell it alone; of fewer, chance may make as many that are spelled otherwise
_OWN = 0.93  # of an answer's ids are, at least, those of its text; of nine in ten honest ones of a small model
_RARE = 0.3  # of the usual share of pairs that other rows have; of one in twenty honest ones less
_PROMPT = 64  # ids of a prompt that tell what it says of thinking


def check_spelling(row: Row, number: int, flags: Flags, model: Model, tally: Tally) -> None:
    """A special token that stands as text pieces."""
    maybe = np.flatnonzero((flags[:-1] & BEGINS != 0) & (flags[1:] & GOES_ON != 0))
    for at in maybe.tolist():
        pieces = [_text(model, id) for id in row.ids[at : at + _LONGEST].tolist()]
        first, joined = len(pieces[0]), "".join(pieces)
        for text in model.special:
            place = joined.find(text)
            if 0 <= place < first < place + len(text):
                tally.hit("marker-split", number, row.ids, at, text)
                return


def check_bytes(row: Row, number: int, span: tuple[int, int], flags: Flags, model: Model, tally: Tally) -> None:
    """Bytes that are no UTF-8; an answer that was cut may end in half a character."""
    start, end = span
    if (flags[start:end] & PARTIAL).any():
        text = model.tokenizer.decode(row.ids[start:end].tolist()).rstrip("\ufffd")
        if "\ufffd" in text:
            at = int(np.flatnonzero(flags[start:end] & PARTIAL)[0])
            tally.hit("utf8", number, row.ids, start + at)


def check_origin(answers: list[tuple[int, int, Ids]], habits: Habits, model: Model, tally: Tally) -> None:
    """Ids that are not how this tokenizer cuts their text; of a short answer, that follow each other nowhere else in
    the file as well, since a model spells a few words in its own way. Answers are (number and hash, ids without
    their end).
    """
    kept = [(number, hash, ids[:_FIRST]) for number, hash, ids in answers if len(ids) >= _ENOUGH]
    tally.look("foreign-ids", len(kept))
    pairs = habits.pairs
    odd = [
        (number, ids.tolist())
        for number, hash, ids in kept
        if len(ids) >= _LONG or (pairs and pairs.share(ids, hash) < _RARE * pairs.usual)
    ]
    again = model.tokenizer.encode([model.tokenizer.decode(ids) for _, ids in odd])
    for (number, ids), own in zip(odd, again, strict=True):
        share = agreement(ids, own)
        if share < _OWN:
            tally.hit("foreign-ids", number, ids, remark=f"{share:.0%} of the ids are this tokenizer's")


def agreement(ids: Sequence[int], own: Sequence[int]) -> float:
    """The share of distinct ids that two cuts of one text have in common: a phrase that is said again counts once."""
    one, other = set(ids), set(own)
    return len(one & other) / max(len(one), len(other), 1)


def check_parts(
    row: Row,
    number: int,
    span: tuple[int, int],
    flags: Flags,
    model: Model,
    tally: Tally,
    *,
    cut: bool,
    thinks: bool,
    tools: Sequence[Tool] | None,
) -> None:
    """Thinking and tool calls: closed, in order, readable, of tools that were offered. ``thinks``: most answers do."""
    start, end = span
    markers, inside = model.markers, flags[start:end]
    state = markers.thinking_at_end(row.ids[max(0, start - _PROMPT) : start].tolist())
    opened = state is Thinking.OPENED
    has_thinking = bool((inside & THINKS).any())
    if thinks and not has_thinking and not cut and state is Thinking.UNSAID:
        tally.hit("thinking-missing", number, row.ids, start)
    calls = bool((inside & CALLS).any())
    if not (opened or (inside & ROLE).any() or (tools and markers.calls)):
        return
    ids = row.ids[start:end].tolist()
    decode = model.tokenizer.decode if calls or tools else _no_text
    parts = parse(ids, markers, opened=opened, decode=decode, tools=tools)
    odd = {oddity for oddity, _ in parts.oddities} - {Oddity.AFTER_END}
    if Oddity.THINKING_UNCLOSED in odd and not cut:
        tally.hit("thinking-unclosed", number, row.ids, start)
    unclosed = {Oddity.THINKING_UNCLOSED, Oddity.SECTION_UNCLOSED, Oddity.CALL_UNCLOSED}
    disorder = sorted(odd - ({Oddity.THINKING_UNCLOSED} if not cut else unclosed))
    if disorder:
        at = next(at for oddity, at in parts.oddities if oddity is disorder[0])
        tally.hit("marker-order", number, row.ids, start + at, disorder[0])
    if not parts.calls:
        return
    tally.look("tool-call")
    usable = [call for call in parts.calls if call.usable]
    if len(usable) < len(parts.calls) - cut:
        fault = next(call for call in parts.calls if not call.usable).reading.fault or "the call does not end"
        tally.hit("tool-call", number, row.ids, start, fault)
    if tools is not None:
        tally.look("unknown-tool")
        offered = {str((tool.get("function") or {}).get("name")) for tool in tools}
        unknown = next((call.reading.name for call in usable if call.reading.name not in offered), None)
        if unknown is not None:
            tally.hit("unknown-tool", number, row.ids, start, f"{unknown!r}, of {', '.join(sorted(offered))}")


def _text(model: Model, id: int) -> str:
    return model.texts[id] if 0 <= id < len(model.texts) else "\0"


def _no_text(ids: list[int]) -> str:
    return ""


def without_end(ids: Ids, flags: Flags) -> Ids:
    """An answer's ids without the end of its turn."""
    return ids[:-1] if len(ids) and flags[-1] & STOP else ids
