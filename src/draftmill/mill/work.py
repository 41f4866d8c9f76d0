"""One generation under way, and the pure decision what a fault means for it (rule 7 of the design)."""

from dataclasses import dataclass, field
from enum import Enum

from draftmill.errors import CapacityFault, EngineError, PromptFault, ReplyFault, SetupFault, TransportFault
from draftmill.journal.prompts import PromptHead
from draftmill.mill.dialogue import Talk

ALONE_AFTER = 3  # transport faults in flight before a prompt is tried alone: three engine deaths are no accident
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0  # seconds; doubled at each transport fault of the same prompt


@dataclass
class Work:
    """A prompt on its way, of the dataset with the given index.

    ``faults`` counts its transport faults; ``tries`` all calls that failed, refusals by a full or paused engine aside.
    ``seen`` is how many answers the run had at its first transport fault: where none came since, the engine fails
    everybody, and no prompt is to blame. ``begun`` is what earlier calls generated of its answer, ``written`` how many
    ids of that the journal holds; ``redrawn``: an earlier start had sent it, and nothing of that answer is known.
    ``talk`` is the conversation that it is a turn of, once that was needed.
    """

    dataset: int
    prompt: PromptHead
    faults: int = 0
    alone: bool = False
    tries: int = 0
    seen: int = 0
    begun: list[int] = field(default_factory=list)
    written: int = 0
    redrawn: bool = False
    talk: Talk | None = None


class Then(Enum):
    """What happens to a prompt whose call failed."""

    AGAIN = "sent again, no attempt counted"
    LATER = "sent again after a pause, to whichever engine lives"
    ALONE = "tried with nothing else in flight, before it is blamed"
    ERROR = "an error row"
    SUSPECT = "set aside with the evidence; again: the run stops"


def decide(fault: EngineError, work: Work, answers: int = 1) -> Then:
    """The path of a failed call. Only a fault that names this very prompt blames it at once.

    ``answers``: how many the run has by now.
    """
    match fault:
        case CapacityFault() | SetupFault():
            return Then.AGAIN
        case PromptFault():
            return Then.ERROR
        case ReplyFault():
            return Then.SUSPECT
        case TransportFault() if work.alone and answers > work.seen:
            return Then.ERROR
        case TransportFault() if work.alone:
            return Then.LATER
        case TransportFault() if work.faults + 1 >= ALONE_AFTER:
            return Then.ALONE
        case _:
            return Then.LATER


def delay(faults: int) -> float:
    """Seconds before the next try after so many transport faults (at least one)."""
    return min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** (faults - 1))
