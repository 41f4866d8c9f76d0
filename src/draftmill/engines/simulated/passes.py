"""What a simulated server counts, and the pass that it is in."""

from dataclasses import dataclass

import msgspec

from draftmill.engines.simulated.admission import Take

NANO = 1_000_000_000
RATE_STEPS = 40  # decode steps: SGLang's log interval


class Counters(msgspec.Struct):
    """Since the server's start. ``generated`` = ``delivered`` + ``dropped`` + what the sequences under way hold.

    ``prefilled`` counts what was computed; ``recomputed`` the part of it that a retraction had thrown away.
    ``delivered`` tokens left with an answer, whole, cut or aborted; ``dropped`` were lost with the server or in a full
    queue.
    """

    requests: int = 0
    prompt_tokens: int = 0
    prefilled: int = 0
    cached: int = 0
    recomputed: int = 0
    generated: int = 0
    delivered: int = 0
    dropped: int = 0
    retractions: int = 0
    aborted: int = 0
    refused: int = 0
    steps: int = 0
    passes: int = 0
    deaths: int = 0
    most_running: int = 0
    most_held: int = 0


class Rate:
    """Tokens a second between two looks that lie at least ``RATE_STEPS`` apart."""

    def __init__(self, now: int = 0) -> None:
        self.value = 0.0
        self._mark = (now, 0, 0)  # time, tokens generated, steps

    def look(self, now: int, counters: Counters) -> None:
        time, generated, steps = self._mark
        if counters.steps - steps >= RATE_STEPS and now > time:
            self.value = (counters.generated - generated) * NANO / (now - time)
            self._mark = (now, counters.generated, counters.steps)


@dataclass(slots=True)
class Pass:
    """``takes`` is empty in a decode pass. ``unit`` is one step's length; a prefill pass is one step."""

    start: int
    unit: int
    steps: int
    takes: list[Take]

    @property
    def end(self) -> int:
        return self.start + self.unit * self.steps

    def done(self, now: int) -> int:
        """Decode steps that are over at a time."""
        return 0 if self.takes else min(self.steps, max(0, now - self.start) // self.unit)
