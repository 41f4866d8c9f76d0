"""The engine for all families whose answers are text with markers in it: one id after the other, one mode at a time.

Thinking ends at its end marker; where none follows, at the first tool call or section, as serving stacks have it; else
with the answer.
"""

from enum import StrEnum

from draftmill.render.families import Role
from draftmill.render.parts import End, Kind, Oddity
from draftmill.render.tiles import Tiles


class _Mode(StrEnum):
    THINK = "thinking"
    TEXT = "text"
    SECTION = "section"
    CALL = "call"


class Walk:
    """Lays the parts of one answer. Each mode says which roles mean something in it; a marker of another is a stray."""

    def __init__(self, tiles: Tiles, opened: bool) -> None:
        self._tiles = tiles
        self._mode = _Mode.THINK if opened else _Mode.TEXT
        self._body = 0  # where the text of the part under way begins
        self._separator: int | None = None
        self._in_section = False
        self._called = False
        self._closing: list[bool] = []  # for each index, whether the next marker of thinking behind it is an end
        self._steps = {
            _Mode.THINK: self._think,
            _Mode.TEXT: self._text,
            _Mode.SECTION: self._section,
            _Mode.CALL: self._call,
        }

    def tile(self, stop: int, end: End) -> None:
        """Lay parts over the ids up to ``stop``, which is where the turn ends or the ids do."""
        self._closing = self._closed_later(stop)
        for i in range(stop):
            role = self._tiles.role(i)
            if role is not None and not self._steps[self._mode](role, i):
                self._tiles.odd(Oddity.STRAY_MARKER, i)
        tiles = self._tiles
        if self._mode is _Mode.THINK:
            tiles.odd(Oddity.THINKING_UNCLOSED, tiles.here)
            tiles.put(Kind.REASONING, stop, (self._body, stop), closed=False)
        elif self._mode is _Mode.TEXT:
            self._put_text(stop)
        elif self._mode is _Mode.SECTION:
            tiles.odd(Oddity.SECTION_UNCLOSED, tiles.here)
            self._put_between(stop)
        else:
            without_close = self._tiles.markers.id(Role.CALL_CLOSE) is None
            self._put_call(stop, stop, closed=without_close and end is not End.CUT)
            if self._in_section:
                tiles.odd(Oddity.SECTION_UNCLOSED, tiles.here - 1)

    def _closed_later(self, stop: int) -> list[bool]:
        """For each index, whether the next marker of thinking behind it is an end."""
        later, closes = [False] * stop, False
        for i in range(stop - 1, -1, -1):
            later[i] = closes
            role = self._tiles.role(i)
            if role in (Role.THINK_OPEN, Role.THINK_CLOSE):
                closes = role is Role.THINK_CLOSE
        return later

    def _think(self, role: Role, i: int) -> bool:
        if role is Role.THINK_CLOSE:
            self._tiles.put(Kind.REASONING, i + 1, (self._body, i))
            self._mode = _Mode.TEXT
            return True
        if role in (Role.SECTION_OPEN, Role.CALL_OPEN) and not self._closing[i]:
            self._tiles.odd(Oddity.CALL_IN_THINKING, i)
            self._tiles.put(Kind.REASONING, i, (self._body, i), closed=False)
            self._mode = _Mode.TEXT
            return self._text(role, i)
        return False

    def _text(self, role: Role, i: int) -> bool:
        if role is Role.THINK_OPEN:
            self._put_text(i)
            self._mode, self._body = _Mode.THINK, i + 1
        elif role is Role.SECTION_OPEN:
            self._put_text(i)
            self._tiles.put(Kind.FRAME, i + 1)
            self._mode, self._in_section, self._called = _Mode.SECTION, True, True
        elif role is Role.CALL_OPEN:
            self._put_text(i)
            self._open_call(i)
        else:
            return False
        return True

    def _section(self, role: Role, i: int) -> bool:
        if role is Role.CALL_OPEN:
            self._put_between(i)
            self._open_call(i)
        elif role is Role.SECTION_CLOSE:
            self._put_between(i)
            self._close_section(i)
        else:
            return False
        return True

    def _call(self, role: Role, i: int) -> bool:
        if role is Role.CALL_SEPARATOR and self._separator is None:
            self._separator = i
        elif role is Role.CALL_CLOSE:
            self._put_call(i, i + 1, closed=True)
            self._mode = _Mode.SECTION if self._in_section else _Mode.TEXT
        elif role is Role.CALL_OPEN:
            self._put_call(i, i, closed=False)
            self._open_call(i)
        elif role is Role.SECTION_CLOSE and self._in_section:
            self._put_call(i, i, closed=False)
            self._close_section(i)
        else:
            return False
        return True

    def _open_call(self, i: int) -> None:
        self._mode, self._body, self._separator, self._called = _Mode.CALL, i + 1, None, True

    def _close_section(self, i: int) -> None:
        self._tiles.put(Kind.FRAME, i + 1)
        self._mode, self._in_section = _Mode.TEXT, False

    def _put_text(self, end: int) -> None:
        start = self._tiles.here
        self._tiles.put(Kind.CONTENT, end)
        if self._called and end > start and self._tiles.parts[-1].text.strip():
            self._tiles.odd(Oddity.TEXT_AFTER_CALL, start)

    def _put_between(self, end: int) -> None:
        start = self._tiles.here
        self._tiles.put(Kind.FRAME, end)
        if end > start and self._tiles.parts[-1].text.strip():
            self._tiles.odd(Oddity.TEXT_IN_SECTION, start)

    def _put_call(self, body_end: int, end: int, closed: bool) -> None:
        middle = body_end if self._separator is None else self._separator
        head = self._tiles.text(self._body, middle)
        tail = None if self._separator is None else self._tiles.text(self._separator + 1, body_end)
        self._tiles.put_call(end, head, tail, closed)
