"""Completions of a run, decoded for a report: the latest of each dataset, long ones with their middle left out."""

import msgspec

from draftmill.errors import DraftmillError
from draftmill.journal.folder import RunFolder
from draftmill.watch.completions import Completions, Span
from draftmill.watch.figures import Recent, RunFigures

_HEAD, _TAIL = 1200, 400  # characters of a text that are shown: its template's start, and what it asks or how it ends
_DATASETS = 24  # that samples are shown of
_MOST = 4_000  # characters of an answer in all, its spans together


class Sample(msgspec.Struct, frozen=True):
    """One completion as text. ``answer`` is what is learnt from; ``prompt`` is empty where a line has none.

    ``left_out`` characters of both together are not shown.
    """

    dataset: str
    position: int
    turn: int
    tokens: int
    finish: str
    prompt: str
    answer: list[Span]
    left_out: int = 0


def take_samples(folder: RunFolder, run: RunFigures, each: int) -> tuple[list[Sample], list[tuple[str, str]]]:
    """So many of each dataset, and (what, why) of what could not be decoded, one a reason."""
    completions, samples = Completions(folder), []
    faults: dict[str, str] = {}
    for recent in _chosen(run, each):
        try:
            decoded = completions.decode(recent)
        except (DraftmillError, OSError, ValueError, msgspec.MsgspecError) as error:
            why = error.message if isinstance(error, DraftmillError) else str(error)
            faults.setdefault(why, f"samples of {recent.dataset}")
            continue
        prompt, left_out = _shortened(decoded.prompt)
        answer, more = _answer(decoded.answer)
        place = (recent.dataset, recent.position, recent.turn, recent.tokens, recent.finish)
        samples.append(Sample(*place, prompt, answer, left_out + more))
    return samples, [(what, why) for why, what in faults.items()]


def _chosen(run: RunFigures, each: int) -> list[Recent]:
    """Of each dataset in their order; ``recent`` is in turn, so the first ones of a dataset are its latest."""
    chosen = [[r for r in run.recent if r.dataset == d.name][:each] for d in run.datasets[:_DATASETS]]
    return [recent for recents in chosen for recent in recents]


def _answer(spans: list[Span]) -> tuple[list[Span], int]:
    """Its spans, each shortened, and no further one once enough is shown, but the last."""
    kept, left_out, shown = [], 0, 0
    for number, span in enumerate(spans):
        if shown > _MOST and number < len(spans) - 1:
            left_out += len(span.text)
            continue
        text, more = _shortened(span.text)
        kept.append(Span(span.kind, text))
        left_out, shown = left_out + more, shown + len(text)
    return kept, left_out


def _shortened(text: str) -> tuple[str, int]:
    """Its head and tail, and how many characters between them were left out."""
    more = len(text) - _HEAD - _TAIL
    if more <= 100:  # the notice would be as long
        return text, 0
    return f"{text[:_HEAD]}\n… {more:,} characters are not shown …\n{text[-_TAIL:]}", more
