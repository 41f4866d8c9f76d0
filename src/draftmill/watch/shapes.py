"""One line of a journal, whatever version wrote it: this one's, or one of the older shapes.

A shape is recognised by what decides its counts. Whatever is none of them gets a reason, and is never taken for an
answer of no tokens.
"""

from collections.abc import Callable

import msgspec

from draftmill.journal.reader import LARGEST, Entry, UnknownLine, read_entry


class Answer(msgspec.Struct, frozen=True):
    """A whole answer in an older shape; its prompt's tokens are None where the line does not say. ``finish`` is in
    the servers' words: "stop", "length", "tool_calls" …"""

    prompt_tokens: int | None
    completion_tokens: int
    finish: str


class _Usage(msgspec.Struct):
    completion_tokens: int
    prompt_tokens: int | None = None


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class _OpenAI(msgspec.Struct):
    """A reply of chat-completions (or completions), as it came."""

    choices: list[_Choice]
    usage: _Usage


class _Reason(msgspec.Struct):
    type: str


class _Plain(msgspec.Struct):
    """Counts at the top level."""

    completion_tokens: int
    prompt_tokens: int | None = None
    finish_reason: str | _Reason | None = None
    position: int | None = None  # with a limit: this version's, and damaged if it comes here
    limit: int | None = None


class _Native(msgspec.Struct):
    """A reply of SGLang's ``/generate``, as it came."""

    meta_info: _Plain


class _Wrapped(msgspec.Struct):
    """A reply that was put under a key of its own beside what it answers."""

    response: _OpenAI


class _Ids(msgspec.Struct):
    output_ids: list[int]


_openai, _wrapped = msgspec.json.Decoder(_OpenAI), msgspec.json.Decoder(_Wrapped)
_plain, _native = msgspec.json.Decoder(_Plain), msgspec.json.Decoder(_Native)
_ids = msgspec.json.Decoder(_Ids)


def read(line: bytes, offset: int, number: int, vocab_size: int = LARGEST) -> Entry | Answer | UnknownLine:
    """The ``number``-th line, which starts at an offset: one of this version, an answer in an older shape, or neither.

    A damaged line of this version is no answer: its prompt is owed again.
    """
    found = read_entry(line, offset, number, vocab_size)
    if isinstance(found, UnknownLine):
        try:
            return _older(line) or found
        except msgspec.DecodeError:
            return found
    return found


def ids(line: bytes) -> list[int]:
    """The generated ids of a line of this version."""
    return _ids.decode(line).output_ids


def _older(line: bytes) -> Answer | None:
    replies: tuple[Callable[[bytes], _OpenAI], ...] = (_openai.decode, lambda text: _wrapped.decode(text).response)
    for reply_of in replies:
        try:
            reply = reply_of(line)
        except msgspec.ValidationError:
            continue
        used = reply.usage
        if reply.choices and used.completion_tokens >= 0:
            return Answer(used.prompt_tokens, used.completion_tokens, _word(reply.choices[0].finish_reason))
    plain: tuple[Callable[[bytes], _Plain], ...] = (_plain.decode, lambda text: _native.decode(text).meta_info)
    for counts_of in plain:
        try:
            counts = counts_of(line)
        except msgspec.ValidationError:
            continue
        if counts.completion_tokens >= 0 and (counts.position is None or counts.limit is None):
            return Answer(counts.prompt_tokens, counts.completion_tokens, _word(counts.finish_reason))
    return None


def _word(reason: "str | _Reason | None") -> str:
    return reason if isinstance(reason, str) else reason.type if reason else "unknown"
