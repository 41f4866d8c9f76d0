"""One generation under way, and the pure decision what a fault means for it (rule 7 of the design)."""

from dataclasses import dataclass, field
from enum import Enum

from draftmill.errors import CapacityFault, EngineError, PromptFault, ReplyFault, SetupFault, TransportFault
from draftmill.journal.prompts import PromptHead
from draftmill.mill.dialogue import Talk

ALONE_AFTER = 3  # transport faults in flight before a prompt is tried alone: three engine deaths are no accident
TRIALS = 4  # failures alone before it is blamed: an engine that fails by itself now and then fails with one alone too
GROWTH = 16  # ids of its answer that clear a prompt: one that an engine dies of when it decodes has its first id
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0  # seconds; doubled at each transport fault of the same prompt


@dataclass
class Work:
    """A prompt on its way, of the dataset with the given index.

    ``faults`` counts the transport faults in a row in which its answer did not grow, ``trials`` those of them with it
    alone in flight; ``tries`` all calls that failed, refusals by a full or paused engine aside. ``seen`` is how many
    answers the run had at its last transport fault: where none came since, the engine may fail everybody, and is asked
    for an old answer before this prompt is tried. ``begun`` is what earlier calls generated of its answer, ``written``
    how many ids of that the journal holds; ``redrawn``: an earlier call may have generated some, and nothing of that is
    known. ``talk`` is the conversation that it is a turn of, once that was needed.
    """

    dataset: int
    prompt: PromptHead
    faults: int = 0
    alone: bool = False
    trials: int = 0
    tries: int = 0
    seen: int = 0
    begun: list[int] = field(default_factory=list)
    written: int = 0
    redrawn: bool = False
    talk: Talk | None = None

    def count(self, answers: int, heard: int) -> None:
        """A transport fault, after ``decide``: held against it unless its answer grew."""
        grew = heard >= GROWTH
        self.faults = 0 if grew else self.faults + 1
        self.trials = 0 if grew else self.trials + self.alone
        self.seen = answers
        self.redrawn = True  # unless its beginning is known: what was lost had begun to be drawn


class Then(Enum):
    """What happens to a prompt whose call failed."""

    AGAIN = "sent again, no attempt counted"
    LATER = "sent again after a pause, to whichever engine lives"
    ALONE = "tried with nothing else in flight, before it is blamed"
    ERROR = "an error row"
    SUSPECT = "set aside with the evidence; again: the run stops"


def decide(fault: EngineError, work: Work, heard: int = 0) -> Then:
    """The path of a failed call. Only a fault that names this very prompt blames it at once.

    ``heard``: how many ids the call brought of its answer, which a prompt that kills engines does not live to see.
    """
    match fault:
        case CapacityFault() | SetupFault():
            return Then.ALONE if work.alone else Then.AGAIN
        case PromptFault():
            return Then.ERROR
        case ReplyFault():
            return Then.SUSPECT
        case TransportFault() if heard >= GROWTH:
            return Then.LATER
        case TransportFault() if work.alone and work.trials + 1 >= TRIALS:
            return Then.ERROR
        case TransportFault() if work.alone or work.faults + 1 >= ALONE_AFTER:
            return Then.ALONE
        case _:
            return Then.LATER


def delay(faults: int) -> float:
    """Seconds before the next try after so many transport faults in a row."""
    return min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** max(0, faults - 1))
