"""An answer in parts: reasoning, content and tool calls, with every id in exactly one of them.

Nothing is repaired. What a family's grammar has no place for stays where it stands and is named in
``Parts.oddities``. ``parse.parse`` makes these.
"""

from enum import StrEnum

import msgspec

from draftmill.render.calls import Reading


class Kind(StrEnum):
    """What a part is. ``frame``: markers of structure and what stands between calls of one section. ``after``: ids
    behind the end of the turn, which belong to nothing."""

    REASONING = "reasoning"
    CONTENT = "content"
    CALL = "call"
    FRAME = "frame"
    END = "end"
    AFTER = "after"


class End(StrEnum):
    """How an answer ended: with the end of the turn, at another stop id, or cut (by a limit, or not finished yet)."""

    TURN = "turn end"
    STOP = "stop"
    CUT = "cut"


class Oddity(StrEnum):
    """What an answer has that its family's grammar does not."""

    STRAY_MARKER = "a marker where it means nothing"
    THINKING_UNCLOSED = "thinking that does not end"
    CALL_IN_THINKING = "a tool call opened inside thinking"
    SECTION_UNCLOSED = "a tool section that does not end"
    CALL_UNCLOSED = "a tool call that does not end"
    TEXT_IN_SECTION = "text between the calls of a section"
    TEXT_AFTER_CALL = "text behind a tool call"
    NO_HEADER = "a message without its header"
    AFTER_END = "tokens behind the end of the turn"


class Call(msgspec.Struct, frozen=True):
    """One tool call: ``reading`` is what it says, ``closed`` whether its end marker came."""

    reading: Reading
    closed: bool

    @property
    def usable(self) -> bool:
        """Whether a serving stack would act on it: it is whole, names a function and can be read."""
        return self.closed and bool(self.reading.name) and not self.reading.fault


class Part(msgspec.Struct, frozen=True):
    """The ids [start, end) of an answer, its markers included; ``text`` is what stands between these.

    ``calls`` are those of a call part, one or more: some families write several into one block.
    """

    kind: Kind
    start: int
    end: int
    text: str
    closed: bool = True
    calls: tuple[Call, ...] = ()


class Parts(msgspec.Struct, frozen=True):
    """An answer in parts. The spans tile its ids: the first starts at 0, each at the end of the one before it.

    ``opened``: it began inside the thinking that the prompt had opened. ``oddities`` are (what, index of the id).
    """

    parts: tuple[Part, ...]
    end: End
    opened: bool
    oddities: tuple[tuple[Oddity, int], ...] = ()

    @property
    def calls(self) -> list[Call]:
        """All tool calls in order, the unusable ones too."""
        return [call for part in self.parts for call in part.calls]

    @property
    def thinking_unclosed(self) -> bool:
        """Whether the answer ended inside its thinking."""
        return any(oddity is Oddity.THINKING_UNCLOSED for oddity, _ in self.oddities)

    def of(self, kind: Kind) -> list[Part]:
        """The parts of one kind, in order."""
        return [part for part in self.parts if part.kind is kind]
