"""What a run's folder already knows: the lengths of its prompts and answers, and the loads of its servers."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from pydantic import ValidationError

from draftmill.capacity.lengths import Lengths, observed
from draftmill.capacity.started import Started
from draftmill.engines.protocol import Identity
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.journal.prompts import read_heads
from draftmill.ledger.standing import Standing, load_standing, read_failures
from draftmill.recipe import Dataset, Plan, Start
from draftmill.records import Failure

_ENOUGH = 30  # answers of an unbroken prefix that say more than all answers, of which the short ones come first
_SAME = 0.005  # of a GPU's free memory: what logs round off, and a little
_STEADY = 3  # looks at one load before it counts


class Seen(msgspec.Struct, frozen=True):
    """One dataset. ``prompts`` are the prompts' lengths in their order, ``mean`` theirs; ``done`` tokens count already.

    ``early``: the answers are those that came first, which are short, and their mean is too low. ``settled``: nothing
    is owed any more.
    """

    prompts: list[int]
    longest: int = 0
    longest_where: str = ""
    answers: Lengths | None = None
    early: bool = False
    done: int = 0
    settled: bool = False

    @property
    def mean(self) -> float:
        return sum(self.prompts) / len(self.prompts)


def seen(folder: RunFolder, dataset: Dataset) -> Seen | None:
    """What there is of a dataset; None where it has no prompts yet."""
    files = folder.dataset(dataset.name)
    if not files.prompts.exists():
        return None
    lengths, longest, where = [], 0, ""
    for head in read_heads(files.prompts):
        if head.fault or head.loss_mask is not None:
            continue
        lengths.append(len(head.prompt_ids))
        if lengths[-1] > longest:
            longest, where = lengths[-1], head.where
    if not lengths:
        return None
    return Seen(lengths, longest, where, *_answers(files, dataset))


def _answers(files: DatasetFolder, dataset: Dataset) -> tuple[Lengths | None, bool, int, bool]:
    if not files.journal.exists():
        return None, False, 0, False
    standing = load_standing(
        files, samples=dataset.samples, budget=dataset.budget, counts=dataset.budget_counts, retry_errors=True
    )
    done = standing.tally().counting_tokens
    prefix = observed(_prefix(standing))
    for failure in read_failures(files.errors):
        if isinstance(failure, Failure):
            standing.failed(failure)
    settled = not standing.tally().owed
    if prefix is not None and prefix.seen >= _ENOUGH:
        return prefix, False, done, settled
    everything = observed(tokens for tokens, _ in standing.lengths())
    whole = prefix is not None and everything is not None and prefix.seen == everything.seen
    return everything, everything is not None and not whole, done, settled


def _prefix(standing: Standing) -> Iterator[int]:
    """The lengths of the answers before the first position that is owed: which are there depends on nothing."""
    for position in range(standing.positions):
        if standing.is_owed(position):
            return
        if standing.is_done(position):
            yield standing.tokens(position)


class _Sample(msgspec.Struct):
    """What is needed of a line of ``load.jsonl``."""

    load: "_Load | None" = None


class _Load(msgspec.Struct):
    running: float = 0
    generation_rate: float | None = None
    kv_total: int | None = None


def loads(path: Path) -> list[tuple[float, float]]:
    """(requests running, tokens a second) out of ``load.jsonl``: the mean rate at each number, where it was seen often
    enough. What a server without a figure of its cache (llama.cpp) says of its rate is of its last answers, and no
    measure of what it does. None of it may fail a plan."""
    rates: dict[int, list[float]] = {}
    decoder = msgspec.json.Decoder(_Sample)
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    load = decoder.decode(line).load
                except (msgspec.DecodeError, msgspec.ValidationError):
                    continue
                if load and load.kv_total and load.running >= 1 and load.generation_rate:
                    rates.setdefault(round(load.running), []).append(load.generation_rate)
    except OSError:
        return []
    return [(float(n), sum(r) / len(r)) for n, r in sorted(rates.items()) if len(r) >= _STEADY]


class _Answer(msgspec.Struct):
    """What the pace of a run needs of a journal line."""

    completion_tokens: int
    seconds: float
    partial: bool = False
    continued: int = 0


def pace(path: Path, journals: Iterable[Path]) -> tuple[float, float] | None:
    """(requests in flight, tokens a second) of a run as a whole: what its answers took, times how many were under way.

    The seconds of an answer hold its queueing and its prefill, so this is the pace of all there is to do, at the one
    number of requests that the run had in flight most of the time. None where that is not known.
    """
    flown: list[float] = []
    tokens = seconds = 0.0
    flying, answers = msgspec.json.Decoder(_Flight), msgspec.json.Decoder(_Answer)
    for line in _lines(path):
        with suppress(msgspec.DecodeError, msgspec.ValidationError):
            flown.append(flying.decode(line).in_flight)
    for journal in journals:
        for line in _lines(journal):
            with suppress(msgspec.DecodeError, msgspec.ValidationError):
                answer = answers.decode(line)
                if not answer.partial and not answer.continued and answer.seconds > 0:
                    tokens, seconds = tokens + answer.completion_tokens, seconds + answer.seconds
    usual = sorted(flown)[len(flown) // 2] if flown else 0
    return (usual, usual * tokens / seconds) if usual and seconds else None


class _Flight(msgspec.Struct):
    in_flight: float


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError:
        return


def identities(path: Path) -> list[Identity]:
    """What the servers of the run said of themselves (``engines.json``); nothing where that is not known."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Identity])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return []


def starts(servers: Iterable[Identity], plan: Plan) -> list[Start]:
    """The starts that servers tell of, on as many GPUs as are planned: of one fraction and dtype the last one."""
    found = {}
    for server in servers:
        if server.kv_tokens and server.mem_fraction and server.tp == plan.tp:
            said = {"mem_fraction": server.mem_fraction, "tokens": server.kv_tokens, "kv": server.kv_dtype or "auto"}
            try:
                found[server.mem_fraction, server.kv_dtype] = Start.model_validate(said)
            except ValidationError:  # a dtype that is not known here
                continue
    return list(found.values())


def launched(path: Path, kind: str, model: str, plan: Plan) -> list[Started]:
    """Starts that ``serve`` has seen of this model on as many GPUs, oldest first; what cannot be read is none."""
    found, decoder = [], msgspec.json.Decoder(Started)
    for line in _lines(path):
        with suppress(msgspec.DecodeError, msgspec.ValidationError):
            found.append(decoder.decode(line))
    return [s for s in found if (s.kind, s.model, s.tp, s.pp) == (kind, model, plan.tp, plan.pp) and s.fraction]


def as_starts(found: Sequence[Started]) -> list[Start]:
    """The same for a plan: of one fraction and dtype the last one, the last one last.

    Starts that found another free memory than the last one say nothing of the next: others used the memory too.
    """
    starts: dict[tuple[float | None, str], Start] = {}
    for s in found:
        if s.free and found[-1].free and abs(s.free / found[-1].free - 1) > _SAME:
            continue
        said = {"mem_fraction": s.fraction, "tokens": s.tokens, "kv": s.kv, "left": s.left}
        with suppress(ValidationError):
            starts.pop((s.fraction, s.kv), None)
            starts[s.fraction, s.kv] = Start.model_validate(said)
    return list(starts.values())
