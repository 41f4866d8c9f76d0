"""What a verification says: every check with its count, share, threshold and first examples; ``verification.json``."""

from pathlib import Path
from typing import Any

import msgspec

from draftmill.errors import EngineError
from draftmill.journal.files import replacing
from draftmill.verify.checks import CHECKS, Check, Severity, passes
from draftmill.verify.likeness import Judged
from draftmill.verify.model import Model
from draftmill.verify.tally import Example
from draftmill.verify.whole import Whole


class Shown(msgspec.Struct, frozen=True):
    """One example: its place, the ids around what was found, decoded where the tokenizer is known, and a remark."""

    where: str
    text: str
    remark: str = ""


class Result(msgspec.Struct, frozen=True):
    """One check. ``count`` of ``looked`` rows (or whatever it looks at), by dataset in ``datasets``; ``above``: too
    many in one of them, by the ``threshold``, which is a share below 1, else a number; ``over`` has the share in each
    such dataset."""

    name: str
    severity: Severity
    count: int
    looked: int
    share: float
    threshold: float
    above: bool
    message: str
    advice: str
    datasets: dict[str, int] = {}
    examples: list[Shown] = []
    over: dict[str, float] = {}


class Fault(msgspec.Struct, frozen=True):
    """Why an engine could not be asked to the end, and what to do."""

    message: str
    advice: str = ""

    def error(self) -> EngineError:
        return EngineError(self.message, self.advice)


class Verification(msgspec.Struct, frozen=True):
    """What was verified, and what came of it. ``not_made`` says why by the name of a check. ``coverage`` is the share
    of supervised tokens in a draft vocabulary of each size, markers included. ``lanes`` has rows and cut ones.
    ``replay`` is what an engine said of some rows, where one was asked, ``replay_fault`` why it could not be.
    ``passed_over`` are a run's datasets of which nothing was verified, each with why."""

    draftmill: str
    source: str
    rows: dict[str, int]
    tokens: int
    supervised: int
    seconds: float
    passed: bool
    checks: list[Result]
    not_made: dict[str, str]
    coverage: dict[str, float]
    lanes: dict[str, list[int]]
    markers: int = 0
    replay: Judged | None = None
    replay_fault: Fault | None = None
    passed_over: dict[str, str] = {}


def results(
    wholes: list[Whole],
    files: dict[str, Path],
    thresholds: dict[str, float],
    not_made: dict[str, str],
    models: dict[str, Model | None],
) -> list[Result]:
    """The result of every check that was made, the gravest first, in the order of the registry."""
    found = []
    for check in CHECKS.values():
        if check.name in not_made:
            continue
        threshold = thresholds.get(check.name, check.threshold)
        numbers = {w.name: w.tally.found.get(check.name, 0) for w in wholes}
        looked = {w.name: w.tally.looked.get(check.name, w.tally.rows) for w in wholes}
        over = {
            name: number / looked[name] if looked[name] else 1.0
            for name, number in numbers.items()
            if check.severity is not Severity.NOTE and not passes(number, looked[name], threshold)
        }
        examples = [
            _shown(example, files[w.name], models[w.name], check.name)
            for w in wholes
            for example in w.tally.examples.get(check.name, ())
        ]
        count, total = sum(numbers.values()), sum(looked.values())
        found.append(
            Result(
                check.name,
                check.severity,
                count,
                total,
                count / total if total else float(count > 0),
                threshold,
                bool(over),
                check.means,
                _advice(wholes, check),
                {name: number for name, number in numbers.items() if number},
                examples[:3],
                over,
            )
        )
    return found


def _advice(wholes: list[Whole], check: Check) -> str:
    """What to do about a check's findings, by each dataset that has some."""
    said = [w.advice.get(check.name, check.do) for w in wholes if w.tally.found.get(check.name)]
    return "; ".join(dict.fromkeys(said)) or check.do


def write(verification: Verification, path: Path) -> None:
    """Write it, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(verification), indent=2) + b"\n")


_OF_THE_WHOLE = (
    *("row-missing", "length-by-position", "length-drift", "language-drift", "owed"),
    "position-order",
    *(
        "replay-likelihood",
        "replay-unlisted",
        "replay-start",
        "replay-re-tokenised",
        "replay-greedy",
        "replay-precision",
    ),
)


def _shown(example: Example, file: Path, model: Model | None, name: str) -> Shown:
    where = example.where or (file.parent.name if name in _OF_THE_WHOLE else f"{file}:{example.row + 1}")
    return Shown(where, _text(example.ids, model), example.remark)


def _text(ids: list[int], model: Model | None) -> str:
    """The ids as text; those that are none of the vocabulary's as numbers."""
    if model is None:
        return " ".join(map(str, ids))
    pieces: list[str] = []
    run: list[int] = []
    for id in [*ids, -1]:
        if 0 <= id < model.tokenizer.size:
            run.append(id)
            continue
        pieces += [model.tokenizer.decode(run)] if run else []
        pieces += [f"[{id}]"]
        run = []
    return "".join(pieces[:-1])


def as_json(verification: Verification) -> Any:
    return msgspec.to_builtins(verification)
