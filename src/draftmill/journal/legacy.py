"""Answers as other tools and older scripts wrote them: what a line of theirs is, and whether its ids can be believed.

Only ids that the model generated make a row: text that is tokenized again splits differently and loses markers. So a
line gives an ``Answer`` only where the output ids stand in it, whatever else does.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from draftmill.records import Finish

_IDS = ("output_ids", "output_token_ids", "completion_ids", "response_ids", "token_ids")
_PROMPT_IDS = ("prompt_ids", "prompt_token_ids", "input_ids")
_MESSAGES = ("messages", "prompt_messages", "conversations")
_WRAPPERS = ("response", "raw_response", "body", "reply")
_ENDS = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "eos_token": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_calls": Finish.STOP,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
}
_THINKING = ("</think>", "<|end_of_thought|>", "[/THINK]")


class Shape(StrEnum):
    """What a line is. ``counts``: ids and counts at its top level; ``sglang`` has its counts in ``meta_info``."""

    DRAFTMILL = "draftmill"
    COUNTS = "counts"
    SGLANG = "sglang"
    OPENAI = "openai"
    TOKENIZED = "tokenized"
    UNKNOWN = "unknown"


class Why(StrEnum):
    """Why a line gives no answer."""

    BROKEN = "no whole line of JSON"
    UNKNOWN = "a shape that is not known"
    TEXT = "text only, no ids"
    MERGED = "text only, no ids, the reasoning merged into it"
    NO_END = "does not say how the answer ended"
    NOT_IDS = "its ids are no token ids"
    BEGINNING = "the beginning of an answer, or a turn of a longer conversation"
    MASK = "its mask is no prompt with one answer behind it"


class Answer(msgspec.Struct, frozen=True):
    """What a line has of an answer; None where it does not say. ``messages`` and ``tools`` are as they stand there."""

    output_ids: list[int]
    finish: Finish | None
    prompt_ids: list[int] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    matched_stop: int | None = None
    id: str = ""
    messages: Any = None
    tools: Any = None


class Read(NamedTuple):
    """A line: its shape, and its answer or why it gives none."""

    shape: Shape
    answer: Answer | Why


def read_response(line: bytes) -> Read:
    """A line of a file of raw responses."""
    try:
        raw = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return Read(Shape.UNKNOWN, Why.BROKEN)
    if not isinstance(raw, dict):
        return Read(Shape.UNKNOWN, Why.UNKNOWN)
    inner: dict[str, Any] = next((raw[key] for key in _WRAPPERS if isinstance(raw.get(key), dict)), {})
    found = {**raw, **inner, "id": raw.get("id", inner.get("id"))}
    if isinstance(found.get("choices"), list):
        return _openai(found)
    if isinstance(found.get("meta_info"), dict):
        meta = found["meta_info"]
        return Read(Shape.SGLANG, _answer({**found, **meta, "id": found["id"]}))
    if {"position", "turn", "output_ids", "limit"} <= found.keys():
        if found.get("partial") or found.get("more") or found.get("ended") or found["turn"]:
            return Read(Shape.DRAFTMILL, Why.BEGINNING)
        return Read(Shape.DRAFTMILL, _answer(found))
    if "completion_tokens" in found or any(key in found for key in _IDS[:-1]):
        return Read(Shape.COUNTS, _answer(found))
    return Read(Shape.UNKNOWN, Why.UNKNOWN)


def read_tokenized(line: bytes) -> Read:
    """A line of ``tokenized_data.jsonl``: its prompt is what comes before the one part that is supervised.

    Nothing in such a line says whether its ids were generated or made of text.
    """
    try:
        raw = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return Read(Shape.UNKNOWN, Why.BROKEN)
    if not isinstance(raw, dict) or raw.get("input_ids") is None or raw.get("loss_mask") is None:
        return Read(Shape.UNKNOWN, Why.UNKNOWN)
    ids, mask = raw["input_ids"], raw["loss_mask"]
    if not (_are_ids(ids) and isinstance(mask, list) and len(mask) == len(ids)):
        return Read(Shape.TOKENIZED, Why.NOT_IDS)
    start = mask.index(1) if 1 in mask else 0
    if not start or any(m != 1 for m in mask[start:]) or any(mask[:start]):
        return Read(Shape.TOKENIZED, Why.MASK)
    finish, _ = _finish(raw)
    return Read(Shape.TOKENIZED, Answer(ids[start:], finish, ids[:start]))


def _openai(found: dict[str, Any]) -> Read:
    """A chat or text completion. vLLM can be asked to return ids with it."""
    choice = found["choices"][0] if found["choices"] and isinstance(found["choices"][0], dict) else {}
    usage = found["usage"] if isinstance(found.get("usage"), dict) else {}
    if any(choice.get(key) for key in _IDS):
        return Read(Shape.OPENAI, _answer({**found, **usage, **choice}))
    message = choice["message"] if isinstance(choice.get("message"), dict) else {}
    text = message.get("content") if message else choice.get("text")
    if not message and not isinstance(text, str):
        return Read(Shape.OPENAI, Why.UNKNOWN)
    split = message.get("reasoning_content") or message.get("reasoning")
    merged = isinstance(text, str) and not split and any(marker in text for marker in _THINKING)
    return Read(Shape.OPENAI, Why.MERGED if merged else Why.TEXT)


def _answer(found: Mapping[str, Any]) -> Answer | Why:
    ids = next((found[key] for key in _IDS if found.get(key) is not None), None)
    if ids is None:
        return Why.TEXT
    prompt = next((found[key] for key in _PROMPT_IDS if found.get(key)), None)
    if not _are_ids(ids) or (prompt is not None and not _are_ids(prompt)):
        return Why.NOT_IDS
    finish, matched = _finish(found)
    if finish is None:
        return Why.NO_END
    return Answer(
        ids,
        finish,
        prompt,
        _count(found.get("prompt_tokens")),
        _count(found.get("completion_tokens")),
        matched,
        str(found.get("id") or ""),
        next((found[key] for key in _MESSAGES if found.get(key)), None),
        found.get("tools"),
    )


def _finish(found: Mapping[str, Any]) -> tuple[Finish | None, int | None]:
    """How an answer ended, and at which id. SGLang says it in an object."""
    said: Any = found.get("finish_reason")
    matched = found.get("matched_stop")
    if isinstance(said, dict):
        said, matched = said.get("type"), said.get("matched")
    return _ENDS.get(said) if isinstance(said, str) else None, _count(matched)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is int and item >= 0 for item in value)
