"""What differs between two runs: settings, digests, prompts, answers, lengths, shares, budgets.

Conversations are paired by their ids, which are hashes of their content, so another order, seed or number of samples
leaves the pairs what they are.
"""

from collections import Counter
from contextlib import ExitStack
from math import sqrt
from typing import Any

import msgspec
import numpy as np

from draftmill import __version__
from draftmill.compare.opened import Asked, Ints, OpenedDataset, OpenedRun, turns_of
from draftmill.errors import StorageError
from draftmill.ledger.settings import differences
from draftmill.ledger.standing import Tally
from draftmill.recipe import EMBEDDED

_EXAMPLES = 3
_Z = 1.959964  # of the normal distribution, for 19 of 20

# What changes how a run is made and not what comes of it. Files of the model are held against each other by digests.
_HOW = (
    "engines.",
    "order",
    "engine_tolerance",
    "max_error_share",
    "checkpoint_partials",
    "trust_remote_code",
    "verify",
)
_PLACES = ("model", "tokenizer")


class Change(msgspec.Struct, frozen=True):
    """A value that the runs do not share; None where a run has none. ``matters``: it can change the rows."""

    key: str
    one: Any
    other: Any
    matters: bool = True


class Lengths(msgspec.Struct, frozen=True):
    """Generated tokens of the counting answers of one run, a turn each."""

    answers: int
    mean: float
    p10: float
    p50: float
    p90: float
    longest: int


class Paired(msgspec.Struct, frozen=True):
    """The second run's length less the first's, over conversations that count in both: mean, and its 95 % interval."""

    conversations: int
    mean: float
    low: float
    high: float


class Example(msgspec.Struct, frozen=True):
    """One pair: its id, its source row, and where it differs; None where that is its prompt."""

    id: str
    where: str
    turn: int
    at: int | None


class Pairs(msgspec.Struct, frozen=True):
    """Conversations of both runs, and the answers that count in both.

    ``other_prompt`` are conversations that were rendered to other ids. Of answers, ``compared`` have equal ids before
    them, and ``divergence`` are quantiles (10, 50, 90 %) of the first id that differs; ``other_history`` are later
    turns behind answers that differ already.
    """

    both: int = 0
    only_one: int = 0
    only_other: int = 0
    other_prompt: int = 0
    compared: int = 0
    other_answer: int = 0
    other_history: int = 0
    divergence: tuple[float, float, float] | None = None
    examples: list[Example] = []


class DatasetDiff(msgspec.Struct, frozen=True):
    """One dataset of both runs. ``shares`` are of the counting answers (truncated, redrawn, continued) and, of each
    kind of error, of the positions; ``reached`` says whether the budget was, None where there is none."""

    differs: bool
    pairs: Pairs
    lengths: tuple[Lengths | None, Lengths | None]
    paired: Paired | None
    shares: dict[str, tuple[float, float]]
    states: tuple[Tally, Tally]
    budgets: tuple[int | None, int | None]
    reached: tuple[bool | None, bool | None]


class Diff(msgspec.Struct, frozen=True):
    """All that differs. ``only`` are datasets that one run alone has prompts of. ``differs``: in what can change
    rows."""

    draftmill: str
    runs: tuple[str, str]
    differs: bool
    settings: list[Change]
    digests: list[Change]
    engines: list[Change]
    only: tuple[list[str], list[str]]
    datasets: dict[str, DatasetDiff]


def diff(one: OpenedRun, other: OpenedRun) -> Diff:
    """Hold two runs against each other. Raises StorageError for a line that cannot be read."""
    settings, digests, engines = _settings(one, other), _digests(one, other), _engines(one, other)
    both = [name for name in one.datasets if name in other.datasets]
    datasets = {name: _dataset(one.datasets[name], other.datasets[name]) for name in both}
    only = ([n for n in one.datasets if n not in datasets], [n for n in other.datasets if n not in datasets])
    matters = any(change.matters for change in settings) or bool(digests or engines) or any(only)
    differs = matters or any(d.differs for d in datasets.values())
    runs = (str(one.path), str(other.path))
    return Diff(__version__, runs, differs, settings, digests, engines, only, datasets)


def _settings(one: OpenedRun, other: OpenedRun) -> list[Change]:
    changed = differences(_named(one.recipe.resolved()), _named(other.recipe.resolved()))
    found = [Change(key, a, b, not _only_how(key)) for key, a, b in changed]
    if one.settings.date != other.settings.date:
        found.append(Change("date", one.settings.date, other.settings.date))
    if one.settings.draftmill != other.settings.draftmill:
        found.append(Change("draftmill", one.settings.draftmill, other.settings.draftmill, False))
    return sorted(found, key=lambda change: (not change.matters, change.key))


def _named(recipe: dict[str, Any]) -> dict[str, Any]:
    """The same with a name for each embedded engine, which has no URL to be known by: its place is none."""
    engines, embedded = [], 0
    for engine in recipe["engines"]:
        if not engine.get("url"):
            embedded += 1
            engine = engine | {"name": EMBEDDED + (f"-{embedded}" if embedded > 1 else "")}
        engines.append(engine)
    return recipe | {"engines": engines}


def _only_how(key: str) -> bool:
    if key.startswith("lanes."):
        return key.endswith(".concurrency")
    return key in _PLACES or key.startswith(_HOW)


def _digests(one: OpenedRun, other: OpenedRun) -> list[Change]:
    a, b = one.settings, other.settings
    pairs = [(f"files.{name}", a.files.get(name), b.files.get(name)) for name in sorted(a.files | b.files)]
    names = ("tokenizer_sha256", "template_sha256", "vocab_size", "stop_ids")
    pairs += [(name, getattr(a, name), getattr(b, name)) for name in names]
    return [Change(*pair) for pair in pairs if pair[1] != pair[2]]


def _engines(one: OpenedRun, other: OpenedRun) -> list[Change]:
    """What the servers said of what they serve: kinds, weights and types, whatever their number and address."""
    found = []
    for key in ("kind", "version", "weights", "kv_dtype"):
        sides = [sorted({str(e[key]) for e in run.engines if e.get(key)}) for run in (one, other)]
        if all(sides) and sides[0] != sides[1]:
            found.append(Change(f"engines.{key}", ", ".join(sides[0]), ", ".join(sides[1])))
    return found


def _dataset(one: OpenedDataset, other: OpenedDataset) -> DatasetDiff:
    pairs, changes = _pairs(one, other)
    states = (one.standing.tally(), other.standing.tally())
    differs = pairs.only_one or pairs.only_other or pairs.other_prompt or pairs.other_answer or states[0] != states[1]
    return DatasetDiff(
        differs=bool(differs),
        pairs=pairs,
        lengths=(_lengths(one.lengths), _lengths(other.lengths)),
        paired=_paired(changes),
        shares=_shares(one, other),
        states=states,
        budgets=(one.dataset.budget, other.dataset.budget),
        reached=(_reached(one, states[0]), _reached(other, states[1])),
    )


def _reached(side: OpenedDataset, tally: Tally) -> bool | None:
    return None if side.dataset.budget is None else tally.counting_tokens >= side.dataset.budget


def _shares(one: OpenedDataset, other: OpenedDataset) -> dict[str, tuple[float, float]]:
    """Those that one of them has at all."""
    found = {}
    for name in ("truncated", "redrawn", "continued"):
        found[name] = tuple(side.counts[name] / max(1, len(side.lengths)) for side in (one, other))
    for kind in sorted(one.errors.keys() | other.errors):
        found[f"error {kind}"] = tuple(side.errors[kind] / max(1, len(side.ids)) for side in (one, other))
    return {name: (a, b) for name, (a, b) in found.items() if a or b}


def _lengths(lengths: Ints) -> Lengths | None:
    if not len(lengths):
        return None
    p10, p50, p90 = map(float, np.percentile(lengths, (10, 50, 90)))
    return Lengths(len(lengths), float(lengths.mean()), p10, p50, p90, int(lengths.max()))


def _paired(changes: list[int]) -> Paired | None:
    """The interval is the normal one, over conversations."""
    if len(changes) < 2:
        return None
    values = np.array(changes, float)
    mean, margin = float(values.mean()), _Z * float(values.std(ddof=1)) / sqrt(len(values))
    return Paired(len(values), mean, mean - margin, mean + margin)


def _pairs(one: OpenedDataset, other: OpenedDataset) -> tuple[Pairs, list[int]]:
    """The pairs, and by how many tokens each that counts in both is longer in the second run."""
    _, at_one, at_other = np.intersect1d(one.ids, other.ids, return_indices=True)
    of = dict(zip(at_one.tolist(), at_other.tolist(), strict=True))
    turns = dict(turns_of(one)), dict(turns_of(other))
    found: Counter[str] = Counter()
    at: list[int] = []
    examples: list[Example] = []
    with ExitStack() as stack:
        prompts = [stack.enter_context(side.files.prompts.open("rb")) for side in (one, other)]
        journals = [
            stack.enter_context(side.files.journal.open("rb")) if turns[i] else None
            for i, side in enumerate((one, other))
        ]
        for position, twin in sorted(of.items()):
            asked, theirs = one.prompt_at(prompts[0], position), other.prompt_at(prompts[1], twin)
            if not _equal(asked.prompt_ids, theirs.prompt_ids):
                found["other_prompt"] += 1
                _keep(examples, asked, 0, None)
                continue
            if journals[0] is None or journals[1] is None:
                continue
            for mine, his in zip(turns[0].get(position, ()), turns[1].get(twin, ()), strict=False):
                a, b = one.answer_at(journals[0], mine), other.answer_at(journals[1], his)
                if a.turn and not _equal(a.prompt_ids, b.prompt_ids):
                    found["other_history"] += 1
                    continue
                found["compared"] += 1
                if (first := _first(a.output_ids, b.output_ids)) is not None:
                    found["other_answer"] += 1
                    at.append(first)
                    _keep(examples, asked, a.turn, first)
    changes = [other.totals[b] - one.totals[a] for a, b in of.items() if a in one.totals and b in other.totals]
    quantiles = np.percentile(at, (10, 50, 90)) if at else None
    return Pairs(
        both=len(of),
        only_one=len(one.ids) - len(of),
        only_other=len(other.ids) - len(of),
        divergence=None if quantiles is None else (float(quantiles[0]), float(quantiles[1]), float(quantiles[2])),
        examples=examples,
        **found,
    ), changes


def _keep(examples: list[Example], asked: Asked, turn: int, at: int | None) -> None:
    if len(examples) < _EXAMPLES:
        examples.append(Example(asked.id, asked.where, turn, at))


def _equal(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    return bytes(one) == bytes(other) or _ids(one) == _ids(other)


def _first(one: msgspec.Raw, other: msgspec.Raw) -> int | None:
    """Where two answers differ first: behind the end of the shorter one where that is how the longer begins; None where
    they are equal."""
    if bytes(one) == bytes(other):
        return None
    a, b = _ids(one), _ids(other)
    common = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return None if common == len(a) == len(b) else common


def _ids(raw: msgspec.Raw) -> list[int]:
    try:
        return msgspec.json.decode(raw, type=list[int])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StorageError(f"ids that cannot be read: {error}", "`draftmill verify` says which") from None
