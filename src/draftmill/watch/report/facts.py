"""All that a report shows, gathered once from a run's files: what ``report.json`` holds is what the page draws."""

from collections.abc import Iterator, Sequence

import msgspec

from draftmill import __version__
from draftmill.watch.diagnosis import diagnose
from draftmill.watch.figures import DatasetFigures, Event, Phase, RunFigures
from draftmill.watch.finding import Finding
from draftmill.watch.lengths import EDGES, Histogram
from draftmill.watch.loads import Point
from draftmill.watch.report.drift import Drift, read_drift
from draftmill.watch.report.samples import Sample, take_samples
from draftmill.watch.report.verification import Verification, read_verification, without_examples
from draftmill.watch.stats import RunWatch
from draftmill.watch.steady import steady

_BINS = 40

Bins = list[tuple[int, int, float]]


class NotKnown(msgspec.Struct, frozen=True):
    """What a report cannot say, and why."""

    what: str
    why: str


class Made(msgspec.Struct, frozen=True):
    """How the run was begun; empty where its settings are not there or cannot be read."""

    model: str = ""
    sampling: dict[str, object] = {}
    seed: int | None = None
    order: str = ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A run's report. ``lengths`` and ``prompt_lengths`` are (from, below, how many) of equally wide bins by dataset,
    the numbers within a bucket of a 64th of its length shared out evenly. ``timeline`` is a point a round of samples.
    """

    draftmill: str
    made: float
    recipe: Made
    not_known: list[NotKnown]
    findings: list[Finding]
    figures: RunFigures
    timeline: list[Point]
    events: list[Event]
    lengths: dict[str, Bins]
    prompt_lengths: dict[str, Bins]
    drift: dict[str, Drift]
    verification: Verification | None
    samples: list[Sample]


def gather(watch: RunWatch, samples: int = 2) -> Facts:
    """Read a run's folder, with so many decoded ``samples`` a dataset; with none, no piece of an answer is in it."""
    figures = watch.refresh()
    folder = watch.folder
    drift, drift_faults = read_drift([folder.dataset(d.name) for d in figures.datasets])
    verification, verification_fault = read_verification(folder.path / "verification.json")
    if not samples:
        drift = {name: msgspec.structs.replace(found, examples=[]) for name, found in drift.items()}
        verification = verification and without_examples(verification)
    decoded, undecoded = take_samples(folder, figures, samples)
    events = list(watch.events.all)
    points = watch.loads.timeline.points
    faults = [*drift_faults, *([verification_fault] if verification_fault else []), *undecoded]
    unknown = [*_unknown(figures, points, events), *(NotKnown(what, why) for what, why in faults)]
    return Facts(
        draftmill=__version__,
        made=figures.time,
        recipe=_made(watch),
        not_known=unknown,
        findings=_findings(figures, points),
        figures=figures,
        timeline=points,
        events=events,
        lengths={name: even_bins(d.lengths()) for name, d in watch.datasets.items()},
        prompt_lengths={name: even_bins(d.prompt_lengths()) for name, d in watch.datasets.items()},
        drift=drift,
        verification=verification,
        samples=decoded,
    )


def even_bins(histogram: Histogram, number: int = _BINS) -> Bins:
    """At most so many bins of one width that hold all, from 0; a bucket that lies in two is shared between them."""
    if not histogram.count:
        return []
    end = histogram.longest + 1
    width = max(1, -(-end // number))
    bins = [0.0] * -(-end // width)
    for i in histogram.counts.nonzero()[0].tolist():
        low, high, held = int(EDGES[i]), min(end, int(EDGES[i + 1])), int(histogram.counts[i])
        for b in range(low // width, (high - 1) // width + 1):
            part = min(high, (b + 1) * width) - max(low, b * width)
            bins[b] += held * part / (high - low)
    return [(b * width, (b + 1) * width, round(n, 2)) for b, n in enumerate(bins)]


def doubtful(dataset: DatasetFigures) -> bool:
    """Whether lines of its journal were not understood: then its sums are of what was, and may be too small."""
    return any(u.file.endswith("raw_responses.jsonl") for u in dataset.unread)


def _findings(run: RunFigures, points: Sequence[Point]) -> list[Finding]:
    """What stands now, and of a run that is over what bounded it while it ran."""
    bound = steady(run, points) if run.phase in (Phase.ENDED, Phase.GONE) else None
    return diagnose(run) + ([bound] if bound else [])


def _made(watch: RunWatch) -> Made:
    if watch.recipe is None:
        return Made()
    recipe = watch.recipe
    sampling = recipe.sampling.model_dump(mode="json", exclude_defaults=True)
    sampling |= {"temperature": recipe.sampling.temperature, "top_p": recipe.sampling.top_p}
    return Made(str(recipe.model), sampling, recipe.seed, str(recipe.order))


def _unknown(run: RunFigures, points: Sequence[Point], events: Sequence[Event]) -> Iterator[NotKnown]:
    if run.phase in (Phase.RUNNING, Phase.PAUSED, Phase.PREPARING):
        yield NotKnown("how it ends", f"the run is {run.phase.value}: all figures are those of this moment")
    if run.phase is Phase.FILES:
        why = f"{run.path} has no run.yaml: budgets, limits and what is owed are not known, only what its lines say"
        yield NotKnown("what was to be done", why)
    if not run.datasets:
        yield NotKnown("datasets", "no prompts and no journal lie in the folder")
    if not points:
        why = (
            "load.jsonl is not there or holds no whole round of samples: neither tokens nor engines are known over time"
        )
        yield NotKnown("the course of the run", why)
    elif not any(p.tokens for p in points):
        yield NotKnown("tokens over time", "load.jsonl is of an older version, which did not note them")
    if points and all(p.kv_use is None for p in points):
        yield NotKnown("KV cache over time", "no engine said how much of it is in use")
    if not events:
        yield NotKnown("events", "events.jsonl is not there or empty")
    for d in run.datasets:
        if d.prompts is None:
            yield NotKnown(f"prompts of {d.name}", "there is no prompts.jsonl: nothing is known to be owed")
    for u in run.unread:
        lines = "1 line was" if u.lines == 1 else f"{u.lines:,} lines were"
        why = f"{lines} not understood, line {u.first} first ({u.reason}); sums are without them"
        yield NotKnown(u.file, why)


def json_of(facts: Facts) -> bytes:
    """``report.json``."""
    return msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n"
