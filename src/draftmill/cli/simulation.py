"""The planned run on simulated servers in virtual time, and its timeline as a chart."""

from itertools import pairwise
from math import log, sqrt
from pathlib import Path

from draftmill.capacity import headroom
from draftmill.capacity.lengths import SIGMA, uncut
from draftmill.capacity.pool import max_running
from draftmill.cli.console import duration, label, many, say, width
from draftmill.engines.simulated import Lengths, ServerSpec
from draftmill.errors import StorageError, UsageFault
from draftmill.mill.loop import Limits
from draftmill.mill.rehearsal import Report, rehearse
from draftmill.mill.scene import Scene, SceneDataset
from draftmill.plan.chart import Series, svg, terminal
from draftmill.plan.demand import Demand
from draftmill.plan.facts import Facts
from draftmill.plan.sheet import Sheet
from draftmill.recipe import Recipe

_SHORTEST = 13  # ids that a simulated prompt needs to be told from others
_MARGIN, _SPARE = 1.3, 200  # prompts for each that is needed: no more are ever asked for
_STEPS = 400  # moments of the timeline
_LABEL = 12


def play(recipe: Recipe, sheet: Sheet, facts: Facts, demands: list[Demand]) -> Report:
    """Play it. Raises UsageFault where there is nothing to play with."""
    if not sheet.tokens or sheet.speed is None:
        raise UsageFault("nothing to simulate: the plan has no KV cache, or nobody knows its speed", "see the notes")
    label("simulating", f"{many(sum(d.needed for d in demands), 'prompt')} on {many(sheet.settings.dp, 'server')} …")
    expected = sheet.span.seconds if sheet.span else 3600.0
    limits = Limits(checkpoint=None)  # nothing is killed here, and hearing answers grow is most of the work
    played = scene(recipe, sheet, facts, demands)
    return rehearse(played, limits=limits, every=max(1.0, expected / _STEPS))


def show(report: Report, sheet: Sheet, facts: Facts, path: Path) -> None:
    """Print the timeline, write the SVG."""
    charts = timeline(report, sheet)
    hours = report.seconds / 3600
    columns = max(20, min(100, width() - _LABEL - 12))
    for series in charts:
        for number, line in enumerate(terminal(series, width=columns)):
            heading = (series.name, f"{series.top:,.0f} {series.unit}".strip(), "")[number]
            say(f"  {heading:<{_LABEL}} {line}", markup=False)
    say(f"  {'':<{_LABEL}} 0{f'{hours:.1f} h':>{columns - 1}}")
    forecast = f"; the plan's forecast is {duration(sheet.span.seconds)}" if sheet.span else ""
    label(
        "simulated",
        f"{duration(report.seconds)}, {report.rate:,.0f} tok/s, {report.recomputed:.1%} computed twice{forecast}",
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg(f"{facts.model.name}: simulated", charts, hours=hours))
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from None
    label("chart", str(path))


def scene(recipe: Recipe, sheet: Sheet, facts: Facts, demands: list[Demand]) -> Scene:
    """The plan as a scene: the prompts' own lengths where they are there, answers of the same two moments."""
    if sheet.speed is None:
        raise UsageFault("nobody knows how fast this server is")
    plan = sheet.settings
    server = ServerSpec(
        kv_tokens=sheet.tokens,
        speed=sheet.speed,
        context=sheet.context,
        chunk=headroom.chunk(facts.card.memory) if facts.card else 8192,
        max_running=plan.slots if sheet.engine == "llamacpp" else max_running(sheet.tokens, sheet.context),
    )
    return Scene(
        datasets=tuple(_dataset(recipe, demand) for demand in demands if demand.needed),
        lanes=recipe.lanes,
        servers=(server,) * plan.dp,
        concurrency=facts.cap or "auto",
        order=recipe.order,
        seed=recipe.seed,
    )


def _dataset(recipe: Recipe, demand: Demand) -> SceneDataset:
    dataset, answers = recipe.dataset(demand.name), demand.answers
    sigma = SIGMA
    if answers.seen:
        sigma = min(1.5, sqrt(max(0.0, log(max(1.0, answers.square / answers.mean**2)))))
    mean = uncut(answers.mean, demand.limit, sigma) if sigma and answers.mean < demand.limit else answers.mean
    most = round(_MARGIN * demand.needed) + _SPARE
    lengths = tuple(max(_SHORTEST, length) for length in demand.prompts[:most])
    many = len(lengths) or min(most, demand.available or most)
    return SceneDataset(
        name=demand.name,
        prompts=many,
        prompt_tokens=max(_SHORTEST, round(demand.prompt)),
        answers=Lengths(mean, sigma),
        lane=demand.lane,
        budget=dataset.budget,
        lengths=lengths,
    )


def timeline(report: Report, sheet: Sheet) -> list[Series]:
    """What runs, what waits, how full the KV caches are, how fast it goes."""
    moments, tokens = report.timeline, sheet.tokens * sheet.settings.dp
    rates = [(b.generated - a.generated) / (b.time - a.time) for a, b in pairwise(moments) if b.time > a.time]
    return [
        Series("running", "", [float(m.running) for m in moments], float(sheet.running * sheet.settings.dp)),
        Series("KV in use", "%", [100 * m.kv_used / tokens for m in moments], 100.0),
        Series("rate", "tok/s", rates or [0.0], sheet.rate),
        Series("waiting", "", [float(m.queued) for m in moments]),
    ]
