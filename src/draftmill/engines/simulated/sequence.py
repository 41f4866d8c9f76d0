"""One request inside a simulated server."""

from dataclasses import dataclass
from enum import Enum

from draftmill.engines.simulated.answers import Answer


class Outcome(Enum):
    """How a request left the server."""

    STOP = "its answer ended"
    LENGTH = "its limit was reached"
    ABORTED = "aborted; what was generated is returned"
    REFUSED = "retracted into a full queue"
    LOST = "the server died"


@dataclass(eq=False, slots=True)
class Sequence:
    """``total`` ids are to be generated, ``generated`` are. ``held`` tokens of it are in the KV pool: while it decodes
    all but the last one generated, which is computed in the next step. Times are nanoseconds."""

    tag: str
    prompt_ids: list[int]
    answer: Answer
    limit: int
    total: int
    arrived: int
    generated: int = 0
    held: int = 0
    cached: int = 0
    retractions: int = 0
    admitted: int | None = None
    first_token: int | None = None
    ended: int | None = None
    aborting: bool = False
    outcome: Outcome | None = None

    @property
    def fill(self) -> int:
        """Tokens that must be in the pool before it can decode."""
        return len(self.prompt_ids) + self.generated

    def ids(self, count: int | None = None) -> list[int]:
        """The ids generated so far, or the first ``count`` of them."""
        done = self.answer.done
        return self.answer.ids(done, done + (self.generated if count is None else count))

    def reserved(self, clip: int) -> int:
        """What it may still generate, as far as admission looks ahead."""
        return min(self.limit - self.generated, clip)
