"""``events.jsonl`` as it grows: what phase the run is in, and why its engines are as they are."""

import re
from collections import deque
from datetime import datetime
from math import inf
from pathlib import Path

import msgspec

from draftmill.ledger.told import EARLY, GOES_ON, PAUSED, UNTIL, is_of_a_start
from draftmill.watch.figures import Event, Phase, Unread
from draftmill.watch.tail import Tail

_KEPT = 2000  # events for a report; the last 50 are shown
_URL = re.compile(r"https?://[^\s,;]*[^\s,;:/]")  # in the text of older runs, which told it of the run
_WHY = ("lost", "stalled", "paused", "absent", "refused", "leaves")


class _Line(msgspec.Struct):
    time: str
    kind: str
    subject: str
    message: str


class Events:
    """``begun`` is when each start began to generate, ``pauses`` from when until when nothing new was sent. ``died``:
    what ended the last start before it generated anything, and when; None where nothing came of none since."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decode = msgspec.json.Decoder(_Line).decode
        self._begin()

    def _begin(self) -> None:
        self._tail = Tail(self._path)
        self.all: deque[Event] = deque(maxlen=_KEPT)
        self.phase = Phase.NEW
        self.begun: list[float] = []
        self.pauses: list[tuple[float, float]] = []
        self.ending = ""
        self.died: tuple[float, str] | None = None
        self._on_hold = False
        self.cap_why: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self.left: set[str] = set()
        self._absent: set[str] = set()
        self.unread: list[Unread] = []
        self._bad = (0, 0, "")

    @property
    def last(self) -> float | None:
        return self.all[-1].time if self.all else None

    @property
    def began(self) -> float | None:
        return self.begun[-1] if self.begun else None

    def paused(self, start: float, end: float) -> float:
        """Seconds between the two in which the run was paused."""
        return sum(max(0.0, min(end, last) - max(start, first)) for first, last in self.pauses)

    def refresh(self) -> None:
        for number, _, line in self._tail.lines():
            try:
                read = self._decode(line)
                self._take(Event(datetime.fromisoformat(read.time).timestamp(), read.kind, read.subject, read.message))
            except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
                lines, first, reason = self._bad
                self._bad = (lines + 1, first or number, reason or str(error))
        if self._tail.replaced:
            self._begin()
            self.refresh()
        lines, first, reason = self._bad
        self.unread = [Unread(self._path.name, lines, first, reason)] if lines else []

    def _take(self, event: Event) -> None:
        self.all.append(event)
        subject = event.subject
        match event.kind:
            case "start" | "recipe" | "prepared":
                self.phase, self.died = Phase.PREPARING, None
            case "milling":
                if not self._on_hold:  # a pause is of a start that was killed
                    self._go_on(event.time)
                self.phase, self.ending = Phase.PAUSED if self._on_hold else Phase.RUNNING, ""
                self._on_hold, self.died = False, None
                self.begun.append(event.time)
                self.left.clear()
                self.why = {name: why for name, why in self.why.items() if name in self._absent}
            case "ended" if event.message.startswith(EARLY):
                self.phase = Phase.ENDED if self.begun else Phase.NEW
                self.died = event.time, event.message.removeprefix(EARLY)
                self.why.clear()
                self._absent.clear()
            case "ended":
                self._go_on(event.time)
                self.phase, self.ending = Phase.ENDED, event.message
                self.why.clear()
                self._absent.clear()
            case "control" if subject == "run" and event.message.startswith(PAUSED):
                self.phase = Phase.PAUSED if self.phase is Phase.RUNNING else self.phase
                self._go_on(event.time)
                self.pauses.append((event.time, inf))
                self._on_hold = is_of_a_start(event.message)
            case "control" if subject == "run" and event.message == GOES_ON:
                self.phase = Phase.RUNNING if self.phase is Phase.PAUSED else self.phase
                self._go_on(event.time)
            case "cap":
                self.cap_why[subject] = event.message
            case "back" | "joins":
                self.why.pop(subject, None)
                self.left.discard(subject)
                self._absent.discard(subject)
            case kind if kind in _WHY:
                if kind == "absent":  # told before a start begins to generate
                    subject, why = _absent(event)
                    self._absent.add(subject)
                else:
                    why = event.message.removeprefix(f"{subject}: ")
                self.why[subject] = why
                if kind == "leaves":
                    self.left.add(subject)

    def _go_on(self, time: float) -> None:
        if self.pauses and self.pauses[-1][1] == inf:
            self.pauses[-1] = (self.pauses[-1][0], time)


def _absent(event: Event) -> tuple[str, str]:
    """The engine's name, and why it is not there."""
    name, why = event.subject, event.message.partition(UNTIL)[2] or event.message
    if name == "run" and (url := _URL.search(why)):
        name = url[0]
    return name, why.rpartition(f"{name}: ")[2]
