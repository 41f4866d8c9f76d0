"""What events of a run say where others read it back out of them: one text for those that tell and those that read."""

from pathlib import Path

SETTLED = "every prompt that was asked for is settled"  # how a start ended that had nothing left to do
EARLY = "before it generated anything: "  # how the end of a start begins that came to nothing; the reason follows
UNTIL = "until it answers: "  # of an engine that is absent; the reason follows
FAILING = "calls in a row failed"  # of an engine that is paused since it answers its probes and fails every call
OTHER = "it came back as another server"  # of one that is paused since it is not what it was
PAUSED = "paused: nothing new is sent, what is in flight goes on"
GOES_ON = "goes on"
_SAYS = " says"


def paused_as(control: Path) -> str:
    """What is told of a pause that a start begins with, since its control file has it."""
    return f"{PAUSED}, as {control}{_SAYS}"


def is_of_a_start(paused: str) -> bool:
    """Whether this is told of a pause that a start begins with."""
    return paused.startswith(PAUSED) and paused.endswith(_SAYS)
