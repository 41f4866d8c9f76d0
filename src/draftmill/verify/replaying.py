"""Which rows of a run or a file an engine is asked about, and what comes of it: a seeded sample, so that two people ask
about the same ones."""

import asyncio
import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from draftmill.engines import connect
from draftmill.engines.protocol import Identity
from draftmill.engines.voice import Passage, read_voices
from draftmill.errors import SetupFault
from draftmill.journal.folder import RunFolder
from draftmill.recipe import EMBEDDED, EngineSpec, Sampling
from draftmill.verify.checks import CHECKS, Needs
from draftmill.verify.likeness import OF_GREEDY, OF_SAMPLED, Judged, Makers, judge
from draftmill.verify.lines import Row, parts, read, unread
from draftmill.verify.model import Model
from draftmill.verify.replay import Asked, Replay, Tell, quiet, replay
from draftmill.verify.whole import Whole

ROWS = 64  # of a run, or of a file
_SLOTS, _SPARE = 2, 16  # of the embedded server, and tokens of its context beyond the longest row
_VOCABULARY = 1 << 18  # where nobody says how many ids there are: it bounds what unlisted ids hold together


@dataclass(frozen=True)
class Replaying:
    """Which engine is asked, about how many rows, drawn by which seed. ``gguf`` is for the embedded one; ``sampling``
    of rows whose file does not say how they were drawn."""

    engine: EngineSpec
    gguf: Path | None = None
    rows: int = ROWS
    seed: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    tell: Tell = quiet


def pick(file: Path, number: int, seed: int) -> list[tuple[int, Row]]:
    """``number`` rows of a file with their line, the same for the same seed, in their order."""
    chance = random.Random(f"{seed} {file.name}")  # noqa: S311 no secret
    kept: list[tuple[float, int, bytes | Row]] = []
    for at, line in enumerate(line for part in parts(file) for line in unread(part)):
        heapq.heappush(kept, (chance.random(), at, line))
        if len(kept) > number:
            heapq.heappop(kept)
    kept.sort(key=lambda entry: entry[1])
    return [(at, line if isinstance(line, Row) else read(line)) for _, at, line in kept]


def asked_of(dataset: str, chosen: Sequence[tuple[int, Row]], sampling: Sampling) -> list[Asked]:
    """The last learnt span of each row, where it can be asked about; passed-through rows are none of an engine's."""
    found = []
    for at, row in chosen:
        learnt = np.flatnonzero(row.mask)
        if row.fault or row.legacy or len(row.mask) != len(row.ids) or not len(learnt):
            continue
        ids, end = row.ids.tolist(), int(learnt[-1]) + 1
        gaps = np.flatnonzero(np.diff(learnt) > 1)
        start = int(learnt[gaps[-1] + 1] if len(gaps) else learnt[0])
        if start and min(ids) >= 0:
            found.append(Asked(dataset, at, ids[:start], ids[start:end], sampling))
    return found


def penalised(sampling: Sampling) -> bool:
    """Whether the distribution depends on the ids before in a way that no engine tells."""
    return (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) != (1.0, 0.0, 0.0)


def replayed(
    plan: Replaying | None,
    asked: list[Asked],
    stop_ids: tuple[int, ...],
    vocab_size: int | None,
    wholes: Sequence[Whole],
    model: Model | None,
    not_made: dict[str, str],
    makers: Makers,
) -> Judged | None:
    """What the engine of a plan says of rows, counted into the datasets' tallies; ``not_made`` learns why checks
    of it are not made."""
    plain = [row for row in asked if not penalised(row.sampling)]
    if plan is None:
        why = "needs an engine that scores rows: --replay"
    elif asked and not plain:
        why = "penalties look at the ids before, and engines tell no distribution with them"
    else:
        why = "" if asked else "no row that an engine could be asked about"
    if why or plan is None:
        not_made |= dict.fromkeys((check.name for check in CHECKS.values() if check.needs is Needs.ENGINE), why)
        return None
    if all(row.sampling.temperature == 0 for row in plain):
        not_made |= dict.fromkeys(OF_SAMPLED, "no row was sampled at a temperature above 0")
    if all(row.sampling.temperature > 0 for row in plain):
        not_made |= dict.fromkeys(OF_GREEDY, "no row was sampled at temperature 0")
    if model is None:
        not_made["replay-re-tokenised"] = "needs the model's tokenizer: --model"
    found = _ask(plan, plain, stop_ids, vocab_size or _VOCABULARY, makers.recorded.passages)
    tallies = {whole.name: whole.tally for whole in wholes}
    return judge(found, tallies, model.tokenizer if model else None, makers)


def look_for(plan: Replaying | None, samplings: Sequence[Sampling]) -> None:
    """Ask the engine of a plan what it is, before the rows are read that it shall be asked about. Raises an EngineError
    where nobody answers: rows may take hours.

    The embedded one is started when it is its turn; only its file is looked for. Under penalties no engine is asked.
    """
    if plan is None or all(map(penalised, samplings)):
        return
    if plan.engine.kind == EMBEDDED:
        if plan.gguf and not plan.gguf.is_file():
            raise SetupFault(f"{plan.gguf}: no such GGUF file")
        return

    async def identified() -> None:
        engine = await connect(plan.engine)
        try:
            await engine.identify()
        finally:
            await engine.close()

    asyncio.run(identified())


def makers_of(folder: RunFolder, tolerance: float) -> Makers:
    """What a run knows of the engines that made its rows."""
    return Makers(_identities(folder.engines), read_voices(folder.voices), tolerance)


def _identities(path: Path) -> list[Identity]:
    """What a run's engines said of themselves; nothing where that is not known."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Identity])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return []


def _ask(
    plan: Replaying,
    asked: Sequence[Asked],
    stop_ids: tuple[int, ...],
    vocab_size: int,
    passages: Sequence[Passage],
) -> Replay:
    """Ask the engine of a plan, which is started and ended where it is the embedded one. Raises an EngineError where it
    cannot score."""
    spec = plan.engine
    if spec.kind == EMBEDDED:
        longest = max((len(row.prompt) + len(row.answer) for row in asked), default=0)
        spec = spec.model_copy(update={"slots": _SLOTS, "context": max(longest + _SPARE, spec.context)})

    async def connected() -> Replay:
        engine = await connect(spec, gguf=plan.gguf)
        try:
            return await replay(engine, asked, stop_ids, vocab_size, plan.tell, passages)
        finally:
            await engine.close()

    return asyncio.run(connected())
