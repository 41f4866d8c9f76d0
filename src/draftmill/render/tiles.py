"""Parts laid one behind the other, so that they cannot but tile the ids of an answer."""

from collections.abc import Callable

from draftmill.render import calls
from draftmill.render.calls import Schemas
from draftmill.render.families import Body, Role
from draftmill.render.markers import Markers
from draftmill.render.parts import Call, Kind, Oddity, Part

Decode = Callable[[list[int]], str]


class Tiles:
    """The parts of an answer so far. ``here`` is the index at which the next one starts."""

    def __init__(self, ids: list[int], markers: Markers, decode: Decode, known: Schemas) -> None:
        self.ids = ids
        self.markers = markers
        self.parts: list[Part] = []
        self.oddities: list[tuple[Oddity, int]] = []
        self._decode = decode
        self._known = known
        self.here = 0

    def role(self, index: int) -> Role | None:
        return self.markers.roles.get(self.ids[index])

    def text(self, start: int, end: int) -> str:
        return self._decode(self.ids[start:end]) if start < end else ""

    def odd(self, oddity: Oddity, index: int) -> None:
        self.oddities.append((oddity, index))

    def put(self, kind: Kind, end: int, body: tuple[int, int] | None = None, closed: bool = True) -> None:
        """The ids up to ``end`` as one part, none where there are none; ``body`` is what lies between its markers."""
        if end > self.here:
            self.parts.append(Part(kind, self.here, end, self.text(*(body or (self.here, end))), closed))
            self.here = end

    def put_call(self, end: int, head: str, tail: str | None, closed: bool) -> None:
        """The ids up to ``end`` as one call part."""
        form = self.markers.body or Body.JSON
        readings = calls.read(form, head, tail, self._known)
        text = head if tail is None else head + tail
        found = tuple(Call(reading, closed) for reading in readings)
        if not closed:
            self.odd(Oddity.CALL_UNCLOSED, self.here)
        self.parts.append(Part(Kind.CALL, self.here, end, text, closed, found))
        self.here = end

    def bare_calls(self, ended: bool) -> None:
        """Make a content that is nothing but calls in JSON a call part, as servers of Llama 3 do."""
        for n, part in enumerate(self.parts):
            if part.kind is Kind.CONTENT and part.text.strip():
                if calls.looks_like_calls(part.text):
                    readings = calls.read(Body.PYTHON_TAG, part.text, None, self._known)
                    found = tuple(Call(reading, ended) for reading in readings)
                    if not ended:
                        self.odd(Oddity.CALL_UNCLOSED, part.start)
                    self.parts[n] = Part(Kind.CALL, part.start, part.end, part.text, ended, found)
                return
