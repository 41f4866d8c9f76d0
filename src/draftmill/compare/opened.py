"""One of two runs that are held side by side, from its files alone: no lock, nothing written."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from draftmill.errors import StorageError
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.index import entries
from draftmill.journal.reader import UnknownLine
from draftmill.ledger import opened as ledger
from draftmill.ledger.order import ID_BYTES
from draftmill.ledger.settings import Settings
from draftmill.ledger.standing import Standing, read_failures
from draftmill.recipe import Dataset, Recipe
from draftmill.records import Finish

T = TypeVar("T")

_NEVER = sys.maxsize  # bytes of a file below which no index of it is written

Ints = npt.NDArray[np.int64]


class Answer(msgspec.Struct, frozen=True):
    """A journal line as far as two of them are compared: its ids are left as they stand."""

    id: str
    turn: int
    output_ids: msgspec.Raw
    prompt_ids: msgspec.Raw = msgspec.Raw()  # no union: msgspec takes `Raw | None` for None alone


class Asked(msgspec.Struct, frozen=True):
    """A prompt's line as far as two of them are compared."""

    id: str
    prompt_ids: msgspec.Raw
    where: str = ""


@dataclass(frozen=True)
class OpenedDataset:
    """One dataset of a run. ``lengths`` are generated tokens of its counting answers, a turn each; ``totals`` those of
    each counting position, by position; ``errors`` counts its error rows by kind."""

    files: DatasetFolder
    dataset: Dataset
    standing: Standing
    ids: npt.NDArray[np.bytes_]
    lengths: Ints
    totals: dict[int, int]
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def prompt_at(self, file: IO[bytes], position: int) -> Asked:
        return _line(_asked, file, self.standing.prompt_offsets[position])

    def answer_at(self, file: IO[bytes], offset: int) -> Answer:
        return _line(_answer, file, offset)


@dataclass(frozen=True)
class OpenedRun:
    """A run: its settings, its recipe with every default spelt out, and its datasets that have prompts."""

    path: Path
    settings: Settings
    recipe: Recipe
    engines: list[dict[str, Any]]
    datasets: dict[str, OpenedDataset]


_answer = msgspec.json.Decoder(Answer)
_asked = msgspec.json.Decoder(Asked)


def open_run(path: Path, only: tuple[str, ...] = ()) -> OpenedRun:
    """Raises UsageFault where there is no run, StorageError for files that cannot be read."""
    run = ledger.open_run(path)
    chosen = [name for name in run.names if not only or name in only]
    datasets = {name: _dataset(run, name) for name in chosen}
    return OpenedRun(path, run.settings, run.recipe, _engines(run.folder.engines), datasets)


def _dataset(run: ledger.OpenedRun, name: str) -> OpenedDataset:
    files, dataset, vocab_size = run.folder.dataset(name), run.recipe.dataset(name), run.settings.vocab_size
    standing = run.standing(name, worth=_NEVER)
    offsets = np.array([o for _, turns in standing.counting() for o in turns], np.int64)
    totals = {position: standing.tokens(position) for position, turns in standing.counting() if turns}
    counts: Counter[str] = Counter()
    lengths = []
    wanted = set(offsets.tolist())
    for entry in entries(files.journal, files.journal_index, _NEVER, vocab_size) if wanted else ():
        if not isinstance(entry, UnknownLine) and entry.offset in wanted and not entry.partial:
            lengths.append(entry.completion_tokens)
            counts["truncated"] += entry.finish_reason is Finish.LENGTH
            counts["redrawn"] += entry.redrawn
            counts["continued"] += entry.continued > 0
    errors = Counter(f.kind for f in read_failures(files.errors) if not isinstance(f, UnknownLine))
    ids = np.frombuffer(standing.ids, dtype=f"S{ID_BYTES}")
    return OpenedDataset(files, dataset, standing, ids, np.array(lengths, np.int64), totals, counts, errors)


def turns_of(opened: OpenedDataset) -> Iterator[tuple[int, list[int]]]:
    """Every counting position with answers of its own, and the offsets of their lines."""
    return ((position, offsets) for position, offsets in opened.standing.counting() if offsets)


def _engines(path: Path) -> list[dict[str, Any]]:
    """What the run's engines said of themselves; nothing where that is not kept."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return []


def _line(decoder: "msgspec.json.Decoder[T]", file: IO[bytes], offset: int) -> T:
    file.seek(offset)
    try:
        return decoder.decode(file.readline())
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StorageError(f"{file.name}: no line that can be read at byte {offset}: {error}") from None
