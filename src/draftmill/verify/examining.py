"""The rows of datasets looked at part by part, in several processes where that is worth it."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from draftmill.ledger.standing import Standing
from draftmill.verify.examine import Examiner, Found, Plan
from draftmill.verify.lines import PART_BYTES, Part, Row, parts, rows
from draftmill.verify.model import Model, shared
from draftmill.verify.whole import Whole

_SAMPLE = 2000  # rows that habits are learned from
_PLACES = 4  # parts that they come from
_WORTH = 8 << 20  # bytes below which another process costs more than it saves

Tell = Callable[[int, int], None]  # hears of rows and tokens so far


def quiet(rows: int, tokens: int) -> None:
    pass


@dataclass
class Job:
    """One dataset to be examined."""

    name: str
    file: Path
    plan: Plan
    model: Model | None
    standing: Standing | None = None


def some_rows(file: Path) -> tuple[list[Row], int]:
    """Rows from several places of a file, and about how many it has."""
    packed = file.name.lower().endswith((".gz", ".zst"))
    there = list(islice(parts(file), 1)) if packed else list(parts(file))
    chosen = there[:: max(1, len(there) // _PLACES)][:_PLACES]
    found, number = [], 0
    for part in chosen:
        of_part = list(islice(rows(part), _SAMPLE)) if len(chosen) == 1 else list(rows(part))
        number += len(of_part)
        found += of_part[: _SAMPLE // len(chosen)]
    if packed:  # how much there is shows only at its end; about ten to one is usual
        number = max(number, number * file.stat().st_size * 10 // PART_BYTES)
    else:
        number = number * len(there) // max(1, len(chosen))
    return found, number


def examined(jobs: list[Job], workers: int | None, tell: Tell) -> list[Whole]:
    """Every part of every dataset, the results in their order, no more than a few parts ahead."""
    wholes = {job.name: Whole(job.name) for job in jobs}
    at_once = workers or len(os.sched_getaffinity(0))
    size = sum(job.file.stat().st_size for job in jobs)
    tasks = ((job.name, part) for job in jobs for part in parts(job.file))
    plans = {job.name: job.plan for job in jobs}
    total = tokens = 0
    for name, found in (
        _serial(plans, tasks, jobs) if at_once == 1 or size < _WORTH else _parallel(plans, tasks, at_once)
    ):
        wholes[name].add(found)
        total, tokens = total + found.tally.rows, tokens + found.tokens
        tell(total, tokens)
    return [wholes[job.name] for job in jobs]


def _serial(plans: dict[str, Plan], tasks: Iterator[tuple[str, Part]], jobs: list[Job]) -> Iterator[tuple[str, Found]]:
    examiners = {job.name: Examiner(plans[job.name], job.model) for job in jobs}
    for name, part in tasks:
        yield name, examiners[name].examine(part)


def _parallel(plans: dict[str, Plan], tasks: Iterator[tuple[str, Part]], at_once: int) -> Iterator[tuple[str, Found]]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=context, initializer=_begin, initargs=(plans,)) as pool:
        waiting: deque[tuple[str, Future[Found]]] = deque()
        try:
            for name, part in tasks:
                waiting.append((name, pool.submit(_examine, name, part)))
                if len(waiting) > 2 * at_once:
                    name, future = waiting.popleft()
                    yield name, future.result()
            while waiting:
                name, future = waiting.popleft()
                yield name, future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_examiners: dict[str, Any] = {}  # of a worker process, by dataset


def _begin(plans: dict[str, Plan]) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the parts are what runs side by side
    for name, plan in plans.items():
        _examiners[name] = Examiner(plan, shared(plan.spec, plan.markers) if plan.spec else None)


def _examine(name: str, part: Part) -> Found:
    found: Found = _examiners[name].examine(part)
    return found
