"""A run's folder, or any file of rows, verified: parts in several processes, then what they hold together."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from pathlib import Path

import msgspec
import numpy as np

from draftmill import __version__
from draftmill.errors import EngineError, RunError, SourceError, StorageError
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.opened import OpenedRun, open_run
from draftmill.ledger.settings import Settings
from draftmill.ledger.stamp import culprit
from draftmill.render.markers import Custom, custom
from draftmill.verify import whole as wholes_
from draftmill.verify.checks import CHECKS, Needs
from draftmill.verify.examine import Plan
from draftmill.verify.examining import Job, Tell, examined, quiet, some_rows
from draftmill.verify.habits import Habits, learn, pairs_of
from draftmill.verify.journaled import Ledgered, key
from draftmill.verify.likeness import Judged, Makers
from draftmill.verify.lines import Row
from draftmill.verify.model import SCRIPTS, STOP, Model, ModelSpec, shared
from draftmill.verify.pairs import Pairs
from draftmill.verify.replaying import Replaying, asked_of, look_for, makers_of, pick, replayed
from draftmill.verify.verification import Fault, Verification, results
from draftmill.verify.whole import Whole

_TESTED = 4000  # answers whose tokenizer is looked at


def verify_run(
    path: Path,
    *,
    only: tuple[str, ...] = (),
    thresholds: dict[str, float] | None = None,
    workers: int | None = None,
    replay: Replaying | None = None,
    tell: Tell = quiet,
) -> Verification:
    """Verify the rows of a run against themselves, its prompts and its journal. Takes no lock and changes nothing.

    ``replay`` asks an engine about some of them. Raises UsageFault where there is no run or no such dataset, RunError
    where there is no row, StorageError for files that cannot be read, an EngineError where the engine does not answer
    at the start. One that fails later is a ``replay_fault``.
    """
    began = time.perf_counter()
    opened = open_run(path)
    folder, settings, recipe = opened.folder, opened.settings, opened.recipe
    asked_for = opened.chosen(only)
    chosen = tuple(name for name in asked_for if folder.dataset(name).rows.exists())
    passed_over = dict.fromkeys(asked_for, "has no rows yet") | opened.left_out(only, "verifies")
    passed_over = {name: why for name, why in passed_over.items() if name not in chosen}
    if not chosen:
        raise RunError(f"{path}: there is no row to verify", "`draftmill run` writes the rows of all that is answered")
    if not folder.tokenizer.is_dir():
        raise StorageError(
            f"{folder.tokenizer}: the run's copy of its tokenizer is gone", "restore it, or start a new run"
        )
    look_for(replay, [recipe.sampling_of(recipe.dataset(name)) for name in chosen])
    samples = {name: some_rows(folder.dataset(name).rows) for name in chosen}
    mixed = zip_longest(*(found for found, _ in samples.values()))
    pairs = pairs_of(row for together in mixed for row in together if row)
    jobs = [_of_run(opened, name, samples[name], pairs) for name in chosen]
    wholes = examined(jobs, workers, tell)
    for job, whole in zip(jobs, wholes, strict=True):
        _with_run(job, whole, folder.dataset(job.name), settings, str(folder.tokenizer))
    limits = recipe.verify | (thresholds or {})
    not_made = {"unfinished": "the run knows how each answer ended (finish-reason)"}
    if pairs is None:
        not_made["foreign-ids"] = _FEW
    asked = []
    for job in jobs if replay else ():
        drawn = pick(job.file, max(1, replay.rows // len(jobs)), replay.seed) if replay else []
        own = [(at, row) for at, row in drawn if row.finish is not None]  # what was passed through nobody generated
        asked += asked_of(job.name, own, recipe.sampling_of(recipe.dataset(job.name)))
    stops, size = tuple(settings.stop_ids), settings.vocab_size
    makers = makers_of(folder, recipe.engine_tolerance)
    judged = _replayed(lambda: replayed(replay, asked, stops, size, wholes, jobs[0].model, not_made, makers), not_made)
    done = _judged(str(path), jobs, wholes, limits, not_made, began, judged)
    return msgspec.structs.replace(done, passed_over=passed_over)


def verify_file(
    path: Path,
    *,
    model: str | None = None,
    trust_remote_code: bool = False,
    thresholds: dict[str, float] | None = None,
    workers: int | None = None,
    replay: Replaying | None = None,
    tell: Tell = quiet,
) -> Verification:
    """Verify a file of rows, whoever wrote it. ``model`` is a directory, a hub id or a ``.gguf`` file; ``replay`` asks
    an engine about some of them.

    Raises SourceError for a file that holds no rows, RenderError for a model that cannot be loaded, an EngineError
    where the engine does not answer at the start.
    """
    began = time.perf_counter()
    look_for(replay, [replay.sampling] if replay else [])
    spec = loaded = None
    if model is not None:
        spec = ModelSpec(model, "2026-01-01", {}, Custom(), trust_remote_code)
        loaded = shared(spec)
    sample, number = some_rows(path)
    if not number:
        raise SourceError(f"{path}: holds no row")
    known = (loaded.flags, loaded.tails, loaded.tokenizer.size) if loaded else ()
    habits = replace(learn(sample, *known), pairs=pairs_of(sample))
    job = Job(
        path.name,
        path,
        Plan(habits, spec, None, min(1.0, _TESTED / number), loaded.markers if loaded else None),
        loaded,
    )
    wholes = examined([job], workers, tell)
    not_made = _not_made(wholes[0], habits, loaded)
    asked = asked_of(job.name, pick(path, replay.rows, replay.seed), replay.sampling) if replay else []
    stops = tuple(np.flatnonzero(habits.flags & STOP).tolist())
    size = habits.vocab_size
    judged = _replayed(lambda: replayed(replay, asked, stops, size, wholes, loaded, not_made, Makers()), not_made)
    return _judged(str(path), [job], wholes, thresholds or {}, not_made, began, judged)


def _replayed(ask: Callable[[], Judged | None], not_made: dict[str, str]) -> Judged | Fault | None:
    """What an engine says of rows. One that fails takes nothing away from what the rows themselves have shown."""
    try:
        return ask()
    except EngineError as error:
        why = f"the engine failed: {error.message}"
        not_made |= dict.fromkeys((check.name for check in CHECKS.values() if check.needs is Needs.ENGINE), why)
        return Fault(error.message, error.advice)


def _of_run(opened: OpenedRun, name: str, sampled: tuple[list[Row], int], pairs: Pairs | None) -> Job:
    folder, settings, recipe = opened.folder, opened.settings, opened.recipe
    dataset, files = recipe.dataset(name), folder.dataset(name)
    spec = ModelSpec(
        str(folder.tokenizer.resolve()),
        settings.date,
        recipe.template_of(dataset),
        custom(recipe.markers),
        recipe.trust_remote_code,
    )
    model = shared(spec)
    unsealed = folder.dataset(name)
    unsealed.prompts_seal = files.path / ".no-seal"  # whether it holds is a check of its own, and stops nothing
    standing = opened.standing(name, unsealed)
    counting = [
        (key(position, turn), offset)
        for position, offsets in standing.counting()
        for turn, offset in enumerate(offsets or [-1])
    ]
    ledgered = Ledgered(
        files.prompts,
        files.journal,
        np.array([k for k, _ in counting], np.int64),
        np.array([offset for _, offset in counting], np.int64),
        np.array(standing.prompt_offsets, np.int64),
    )
    flags = model.flags.copy()
    for id in settings.stop_ids:
        flags[id] |= STOP
    sample, number = sampled
    habits = learn(sample, flags, vocab_size=settings.vocab_size)
    habits = replace(habits, tails=frozenset(), pairs=pairs)  # where answers begin, the journal knows
    return Job(
        name,
        files.rows,
        Plan(habits, spec, ledgered, min(1.0, _TESTED / max(1, number)), model.markers),
        model,
        standing,
    )


def _with_run(job: Job, whole: Whole, files: DatasetFolder, settings: Settings, tokenizer: str) -> None:
    """The checks of one dataset as a whole."""
    tally, standing, ledgered, model = whole.tally, job.standing, job.plan.ledgered, job.model
    assert standing and ledgered and model
    wholes_.against_ledger(whole, ledgered, cache(lambda: culprit(files)))
    wholes_.by_position(whole, ledgered.keys)
    wholes_.by_rank(whole, standing.ids, int(settings.recipe["seed"]))
    for check in ("prompts-changed", "tokenizer-changed", "length-by-position"):
        tally.look(check)
    if files.prompts_seal.exists():
        sealed = files.prompts_seal.read_text(errors="replace").partition(" ")[0]
        with files.prompts.open("rb") as file:
            if sealed != hashlib.file_digest(file, "sha256").hexdigest():
                said = f"its SHA-256 is not that in {files.prompts_seal.name}"
                tally.hit("prompts-changed", 0, remark=said, where=str(files.prompts))
    digests = (model.tokenizer.digest(), model.template.digest())
    if digests != (settings.tokenizer_sha256, settings.template_sha256):
        tally.hit("tokenizer-changed", 0, remark="a digest is not that in run.yaml", where=tokenizer)
    owed = standing.tally().owed
    for line in standing.unknown_lines:
        where = f"{files.journal}:{line.line}"
        tally.hit("journal-line" if owed else "journal-settled", 0, remark=line.reason, where=where)
    wholes_.behind_damage(whole, [f"{files.journal}:{line.line}" for line in standing.unknown_lines])
    for check in ("journal-line", "journal-settled"):
        tally.look(check, standing.finishes.total() + len(standing.unknown_lines))
    tally.look("owed", standing.tally().positions)
    if owed:
        tally.hit("owed", 0)
        tally.found["owed"] = owed


def _judged(
    source: str,
    jobs: list[Job],
    wholes: list[Whole],
    thresholds: dict[str, float],
    not_made: dict[str, str],
    began: float,
    judged: Judged | Fault | None,
) -> Verification:
    fault = judged if isinstance(judged, Fault) else None
    model = jobs[0].model
    wholes_.repeated(wholes)
    wholes_.drift(wholes, model.scripts if model else None, SCRIPTS)
    for whole in wholes:
        whole.tally.look("length-drift")
        whole.tally.look("language-drift")
    longest = max(len(whole.counts) for whole in wholes)
    counts = sum(np.pad(whole.counts, (0, longest - len(whole.counts))) for whole in wholes)
    assert not isinstance(counts, int)
    forced = sorted({*model.markers.roles, *model.markers.stop_ids}) if model else []
    if model:
        wholes[0].tally.look("marker-coverage", len(forced) - wholes[0].tally.looked.get("marker-coverage", 0))
        for id in wholes_.left_out(counts, forced):
            wholes[0].tally.hit("marker-coverage", 0, [id], remark=str(id), where=source)
        for whole in wholes[1:]:
            whole.tally.look("marker-coverage", 0)
    lanes: dict[str, list[int]] = {}
    for whole in wholes:
        for lane, (number, cut) in whole.lanes.items():
            before = lanes.setdefault(lane, [0, 0])
            lanes[lane] = [before[0] + number, before[1] + cut]
    made = results(
        wholes,
        {job.name: job.file for job in jobs},
        thresholds,
        not_made,
        {job.name: job.model for job in jobs},
    )
    return Verification(
        draftmill=__version__,
        source=source,
        rows={whole.name: whole.tally.rows for whole in wholes},
        tokens=sum(whole.tokens for whole in wholes),
        supervised=int(counts.sum()),
        seconds=round(time.perf_counter() - began, 3),
        passed=not any(result.above for result in made) and not fault,
        checks=made,
        not_made=not_made,
        coverage={str(size): round(share, 6) for size, share in wholes_.coverage(counts, forced).items()},
        lanes=lanes,
        markers=len(forced),
        replay=None if isinstance(judged, Fault) else judged,
        replay_fault=fault,
    )


_FEW = "needs 200 rows or more"
_OF_STOPS = ("inner-end", "unfinished", "stop-masked", "truncated", "finish-reason", "empty")
_OF_TAILS = ("mask-early", "mask-late", "no-boundary")


def _not_made(whole: Whole, habits: Habits, model: Model | None) -> dict[str, str]:
    """The checks that a file of rows does not allow, and why."""
    reasons = {}
    for check in CHECKS.values():
        if check.needs is Needs.RUN:
            reasons[check.name] = "needs the prompts and the journal of a run"
        elif check.needs is Needs.MODEL and model is None:
            reasons[check.name] = "needs the model's tokenizer: --model"
    if model is None:
        reasons["vocabulary"] = "needs the model's tokenizer: --model"
        if whole.tally.found.get("vocabulary"):
            del reasons["vocabulary"]  # ids below 0 are none of any model
    if model is not None and habits.pairs is None:
        reasons["foreign-ids"] = _FEW
    reasons["language-drift"] = reasons["length-drift"] = "needs several datasets of a run"
    if not whole.tally.looked.get("finish-reason"):
        reasons["finish-reason"] = "no row says how its answer ended (`finish_reason`)"
    elif "unfinished" not in whole.tally.looked:
        reasons["unfinished"] = "rows say themselves how they ended (finish-reason)"
    if "row-counts" not in whole.tally.looked:
        reasons["row-counts"] = "no row has counts (`prompt_tokens`, `completion_tokens`)"
    if not (habits.flags & STOP).any():
        reasons |= dict.fromkeys(_OF_STOPS, "no id ends most rows, and no --model says which does")
    if not habits.tails:
        reasons |= dict.fromkeys(_OF_TAILS, "no ids stand before most answers, and no --model says which should")
    return reasons
