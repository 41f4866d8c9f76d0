"""One flat family of errors, named by the boundary that a failure crossed.

A message is one sentence for a person and names file, line and field where they exist. ``advice`` says what to do
next. Neither ever holds a secret: API keys are not put into messages anywhere.
"""

import traceback
from collections.abc import Sequence


class DraftmillError(Exception):
    """The base of all errors that are told to the user without a traceback."""

    exit_code = 1

    def __init__(self, message: str, advice: str = "", faults: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.faults = list(faults)


def in_words(error: BaseException) -> str:
    """What an error says; of one that is a fault of our own, its kind and where it was raised too."""
    if isinstance(error, DraftmillError):
        return error.message
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {said}' if said else ''}{place}"


class RecipeError(DraftmillError):
    """The recipe or an override of it is wrong: ``faults`` holds every fault found, one line each."""

    exit_code = 2

    def __init__(self, message: str, faults: list[str], advice: str = "") -> None:
        super().__init__(message, advice, faults)


class UsageFault(DraftmillError):
    """The command line asks for something that does not exist or must not be done."""

    exit_code = 2


class SourceError(DraftmillError):
    """A dataset as a whole cannot be read: missing, unknown format, no readable row."""


class RenderError(DraftmillError):
    """The tokenizer or its chat template cannot be used, or not for this conversation."""


class StorageError(DraftmillError):
    """A file of the run could not be written, synced or trusted."""


class LockedError(StorageError):
    """Another process holds the run."""


class RunError(DraftmillError):
    """The run is refused or stopped as a whole: settings changed, engines that do not fit together."""


class EngineError(DraftmillError):
    """A call to an engine failed. The subclasses are the paths that a failure can take (rule 7 of the design)."""


class CapacityFault(EngineError):
    """The engine is full (429, queue full, retraction): fewer at once, no attempt is counted."""


class TransportFault(EngineError):
    """Reset, 5xx, engine gone: retried with backoff on whichever engine lives."""


class PromptFault(EngineError):
    """The engine refuses this very prompt (too long, invalid ids): an error row at once, never retried."""


class SetupFault(EngineError):
    """401, 404, unknown sampling key, any other 4xx: the engine is paused and the person told; no prompt is blamed."""


class ReplyFault(EngineError):
    """A reply that contradicts the request (counts, ids, finish reason): set aside with its evidence."""


class ServerError(DraftmillError):
    """A server that draftmill launches could not be started, or not be kept alive."""
