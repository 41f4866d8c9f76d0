"""What a run tells whoever watches it from inside the process. Every method does nothing by default."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftmill.mill.loop import Loop
    from draftmill.mill.prepared import Prepared
    from draftmill.mill.seat import Seat
    from draftmill.render.findings import Finding


class Observer:
    """Hears a run's steps, in their order."""

    def note(self, kind: str, subject: str, message: str) -> None:
        """Something happened: also a line of ``events.jsonl``."""

    def preparing(self, dataset: str, read: int, written: int) -> None:
        """Rows read and prompts written so far."""

    def prepared(self, dataset: str, report: "Prepared", fresh: bool) -> None:
        """A dataset's prompts are there; ``fresh`` where they were prepared just now."""

    def found(self, finding: "Finding", datasets: list[str]) -> None:
        """Something about the model that matters to these datasets; none are named where it matters to all."""

    def seated(self, seats: "list[Seat]", compared: int) -> None:
        """The engines answer; so many texts gave the same ids there as here."""

    def milling(self, loop: "Loop") -> None:
        """The loop begins; its streams and seats can be read at any time."""

    def milled(self) -> None:
        """The loop has ended."""
