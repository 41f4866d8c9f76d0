"""Answers in harmony, the form of gpt-oss: messages, each with a header that names its channel and recipient.

The prompt ends behind ``<|start|>assistant``, so an answer begins inside a header. A message with a recipient
(``to=functions.NAME``) is a tool call, whatever its channel; without one, ``analysis`` is reasoning and all else
content. A call is whole when ``<|call|>`` ends it, which ends the turn as well.
"""

import re

from draftmill.render.families import Role
from draftmill.render.parts import Kind, Oddity
from draftmill.render.tiles import Tiles

_CALL = "<|call|>"


def tile(tiles: Tiles, stop: int) -> None:
    """Lay parts over the ids up to ``stop``, which is where the turn ends or the ids do."""
    body: int | None = None  # where the content of the message under way begins; None inside a header
    for i in range(stop):
        role = tiles.role(i)
        if body is None:
            if role is Role.MESSAGE:
                body = i + 1
            elif role is Role.START and i > tiles.here:
                _put_header(tiles, i)
            elif role is Role.MESSAGE_END:
                _put_header(tiles, i + 1)
        elif role is Role.MESSAGE_END:
            _put(tiles, body, i, i + 1, ended=True)
            body = None
        elif role is Role.START:
            _put(tiles, body, i, i, ended=False)
            body = None
        elif role is not None:
            tiles.odd(Oddity.STRAY_MARKER, i)
    if body is not None:
        _put(tiles, body, stop, stop, ended=False, called=_is_call(tiles, stop))
    elif stop > tiles.here:
        _put_header(tiles, stop)


def _put(tiles: Tiles, body: int, body_end: int, end: int, *, ended: bool, called: bool = False) -> None:
    """One message as a part. ``ended``: by its own end marker; ``called``: by the one of a call."""
    channel, recipient = _header(tiles, tiles.here, body - 1)
    if channel is None:
        tiles.odd(Oddity.NO_HEADER, tiles.here)
    if recipient is not None:
        tiles.put_call(end, recipient, tiles.text(body, body_end), closed=called)
    elif channel == "analysis":
        if not ended:
            tiles.odd(Oddity.THINKING_UNCLOSED, tiles.here)
        tiles.put(Kind.REASONING, end, (body, body_end), closed=ended)
    else:
        tiles.put(Kind.CONTENT, end, (body, body_end))


def _put_header(tiles: Tiles, end: int) -> None:
    """A header that no content follows."""
    tiles.odd(Oddity.NO_HEADER, tiles.here)
    tiles.put(Kind.FRAME, end)


def _header(tiles: Tiles, start: int, end: int) -> tuple[str | None, str | None]:
    """The channel and the recipient that a header names."""
    texts: list[tuple[Role | None, str]] = []
    after: Role | None = None
    begin = start
    for i in range(start, end):
        if (role := tiles.role(i)) is not None:
            texts.append((after, tiles.text(begin, i)))
            after, begin = role, i + 1
    texts.append((after, tiles.text(begin, end)))
    channel = next((text.split()[:1] for role, text in texts if role is Role.CHANNEL), None)
    recipient = next((match[1] for _, text in texts if (match := re.search(r"\bto=(\S+)", text))), None)
    return None if channel is None else "".join(channel), recipient


def _is_call(tiles: Tiles, stop: int) -> bool:
    return stop < len(tiles.ids) and tiles.markers.texts.get(tiles.ids[stop]) == _CALL
