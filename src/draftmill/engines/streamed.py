"""Answers while they grow: how seldom a server may tell of them, and what is new in what it tells.

An event costs the client about as much as a whole answer does, and the server more, so that there should be few. SGLang
repeats all ids in each of them, which over a long answer is quadratic: only what is new is read.
"""

import asyncio
from array import array

from draftmill.errors import ReplyFault

FIRST_INTERVAL = 32  # tokens between two events, while nothing is known of a server's speed
_MEMORY = 1 - 1 / 256  # of the speed, an event: the last few hundred count, so that it follows the load within seconds

_KEY = b'"output_ids":['  # no string can hold it, since there a backslash stands before every quote
_COMMA = ord(",")
_TAIL = 64  # bytes: about ten ids


class Pace:
    """How fast each answer of one server grows, seen in all its streams."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._seconds = 0.0

    def note(self, tokens: int, seconds: float) -> None:
        """An answer grew by so many tokens in so many seconds."""
        self._tokens = _MEMORY * self._tokens + tokens
        self._seconds = _MEMORY * self._seconds + seconds

    def interval(self, every: float) -> int:
        """Tokens that an answer grows by in ``every`` seconds, at least one."""
        if not self._seconds:
            return FIRST_INTERVAL
        return max(1, round(every * self._tokens / self._seconds))


class Growing:
    """One answer under way: its ``ids``, and its speed noted in ``pace`` as they come. Made on a running event loop."""

    def __init__(self, name: str, pace: Pace) -> None:
        self.ids = array("I")
        self._name = name
        self._pace = pace
        self._now = asyncio.get_running_loop().time
        self._told: float | None = None

    def add(self, new: list[int]) -> None:
        """Ids behind those that are there. Raises ReplyFault for numbers that are no ids."""
        self._add(self._packed(new))

    def replace(self, whole: list[int]) -> None:
        """All ids so far, those that are there among them. Raises ReplyFault where those are not what they were."""
        packed, known = self._packed(whole), len(self.ids)
        if packed[:known] != self.ids:
            raise ReplyFault(f"{self._name}: ids of a growing answer were told twice, and differ")
        self._add(packed[known:])

    def _add(self, new: "array[int]") -> None:
        before, self._told = self._told, self._now()
        self.ids += new
        if before is not None:  # what came before the first event may have waited in a queue
            self._pace.note(len(new), self._told - before)

    def _packed(self, ids: list[int]) -> "array[int]":
        try:
            return array("I", ids)
        except OverflowError:
            raise ReplyFault(f"{self._name}: the answer holds a number that is no id") from None


class Repeating:
    """Finds what is new in events that repeat all ids so far, without reading the repeated ones.

    The text of the ids only grows. Where the text of the last event ended, its end must stand in the next one; that
    all the rest has stayed what it was shows when the last event is read from end to end.
    """

    def __init__(self) -> None:
        self._at = 0  # where the ids stood in the last event, how long their text was, and its end
        self._length = 0
        self._tail = b""

    def rest(self, event: bytes) -> bytes | None:
        """The event with its new ids only; None where it has to be read whole."""
        at = event.find(_KEY, self._at)
        begin = at + len(_KEY)
        cut = begin + self._length
        end = event.find(b"]", cut)
        if at < 0 or end < 0:
            self._at = self._length = 0
            return None
        known = self._length > 0 and event.endswith(self._tail, begin, cut) and (cut == end or event[cut] == _COMMA)
        self._at, self._length, self._tail = at, end - begin, event[max(begin, end - _TAIL) : end]
        return b"{" + _KEY + event[min(cut + 1, end) : end] + event[end:] if known else None
