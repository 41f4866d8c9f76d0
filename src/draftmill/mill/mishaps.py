"""Faults of our own in what runs beside the loop: each is told once, and the run goes on without it."""

from collections.abc import Callable

from draftmill.errors import in_words


class Mishaps:
    """``tell(kind, subject, message)`` hears of each fault once, however often it comes."""

    def __init__(self, tell: Callable[[str, str, str], None]) -> None:
        self._tell = tell
        self._told: set[tuple[str, str, str]] = set()

    def hear(self, subject: str, what: str, error: BaseException) -> None:
        """``what`` went wrong with a subject (an engine, or ``run``)."""
        fault = subject, what, in_words(error)
        if fault not in self._told:
            self._told.add(fault)
            self._tell("fault", subject, f"{what}: {fault[2]}; the run goes on")
