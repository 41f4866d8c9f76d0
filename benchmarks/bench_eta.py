"""Whether the end that the monitor foresees comes in the range that it states, on whole runs in virtual time.

Each run is the real loop on simulated servers; every minute or so of it the monitor looks at its files, and what it
said is compared with the end that came. Said of each run and of all: how often the end lay in the range from 10 % of
the tokens on, and the range's half width at 10 % and at half, as a share of what was left, and of the whole run.

Usage: bench_eta.py [SEEDS [NAME …]]   (each run once for each of 2 seeds; a run takes half a minute to two)
"""

import asyncio
import random
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from draftmill.engines.simulated import Kind as Fault
from draftmill.engines.simulated import Lengths, storm
from draftmill.journal.folder import RunFolder
from draftmill.ledger.settings import Settings, write_settings
from draftmill.mill import clock
from draftmill.mill.loop import Limits
from draftmill.mill.rehearsal import Stage, rehearse
from draftmill.mill.scene import REFERENCE, Scene, SceneDataset
from draftmill.recipe import Lane, Recipe
from draftmill.watch.figures import Eta
from draftmill.watch.stats import RunWatch

LOOKS = 100  # at a run
RATE = 850.0  # tokens a second, about
FAULTS = (Fault.RESET, Fault.ERROR, Fault.FULL, Fault.STALL, Fault.ABORT)
AUTO = {"short": Lane(max_new_tokens=10_240), "long": Lane(max_new_tokens=16_384)}


class Kind(NamedTuple):
    """One kind of run, in its size. ``faults``: its server has one every so often; ``stops``: it is killed once, and
    goes on five minutes later."""

    scene: Scene
    faults: bool = False
    stops: bool = False


def kinds(seed: int) -> dict[str, Kind]:
    """Runs of a dataset that ends with its prompts, of one that a budget ends, of three, of eight."""
    short = {"short": Lane(max_new_tokens=10_240)}
    one = (SceneDataset("a", 4_000, 200, Lengths(1000)),)
    budget = (SceneDataset("a", 6_000, 200, Lengths(1000), budget=4_000_000),)
    mixed = (
        SceneDataset("a", 2_000, 200, Lengths(800)),
        SceneDataset("b", 2_000, 400, Lengths(1500), budget=1_500_000),
        SceneDataset("c", 100, 3000, Lengths(2500), "long"),
    )
    reference = Scene(REFERENCE.datasets, AUTO, concurrency="auto", seed=seed)
    return {
        "prompts end it": Kind(Scene(one, short, concurrency=60, seed=seed)),
        "a budget ends it": Kind(Scene(budget, short, seed=seed)),
        "mixed": Kind(Scene(mixed, AUTO, concurrency="auto", seed=seed)),
        "reference / 50": Kind(reference.scaled(0.02)),
        "reference / 10": Kind(reference.scaled(0.1)),
        "faults": Kind(reference.scaled(0.05), faults=True),
        "stopped once": Kind(reference.scaled(0.05), stops=True),
    }


def settings(folder: RunFolder, scene: Scene) -> None:
    """What the monitor knows of the scene."""
    folder.create()
    lanes = {
        n: {"max_new_tokens": lane.max_new_tokens, "concurrency": lane.concurrency} for n, lane in scene.lanes.items()
    }
    datasets = [{"name": d.name, "source": "x", "lane": d.lane, "budget": d.budget} for d in scene.datasets]
    recipe = Recipe.model_validate(
        {"model": "m", "engines": ["http://simulated"], "lanes": lanes, "datasets": datasets}
    )
    data = recipe.model_dump(mode="json")
    write_settings(folder, Settings("0", "2026-01-01", data, {}, "", "", scene.vocab_size, [2]))


def watched(kind: Kind, seed: int) -> tuple[float, list[tuple[float, int, Eta | None]]]:
    """Seconds of a run, and at each look (when, tokens until then, what was foreseen)."""
    scene = kind.scene
    expected = sum(d.budget or d.prompts * d.answers.mean for d in scene.datasets) / RATE
    every = max(20.0, expected / LOOKS)
    troubles = storm(seed, until=expected, every=expected / 8, kinds=FAULTS, longest=60.0) if kind.faults else []
    seen: list[tuple[float, int, Eta | None]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place) / "run")
        settings(folder, scene)

        async def look(stage: Stage) -> None:
            watch = RunWatch(folder.path, now=clock.wall)
            while True:
                await asyncio.sleep(every)
                total = watch.refresh().total
                seen.append((clock.wall(), total.generated + total.growing, total.eta))

        def play(began: float, kill_at: float | None = None) -> float:
            report = rehearse(
                scene,
                folder=folder.path,
                during=look,
                limits=Limits(checkpoint=10.0),
                troubles=troubles,
                kill_at=kill_at,
                began=began,
            )
            return began + report.seconds

        began = 0.0
        if kind.stops:
            began = play(0.0, kill_at=expected * random.Random(seed).uniform(0.1, 0.6)) + 300.0
        return play(began), seen


class Judged(NamedTuple):
    """How good the ranges of one run were: the share that held, and half widths at 10 % and at half, as a share of what
    was left and of the whole run."""

    inside: float
    left_10: float
    whole_10: float
    left_50: float
    whole_50: float


def judged(seconds: float, seen: list[tuple[float, int, Eta | None]]) -> Judged:
    """A run that took so long, and what was foreseen of it."""
    whole = seen[-1][1]
    told = [(time, tokens / whole, eta) for time, tokens, eta in seen if eta and tokens >= 0.1 * whole]
    inside = [eta.low <= seconds - time <= eta.high for time, _, eta in told]
    widths = []
    for share in (0.1, 0.5):
        time, _, eta = next(look for look in told if look[1] >= share)
        half = (eta.high - eta.low) / 2
        widths += [half / eta.seconds, half / (time + eta.seconds)]
    return Judged(mean(inside), *widths)


def show(name: str, hours: float, said: Judged) -> None:
    """One line of the table."""
    first, second, third, fourth = (f"{share:.1%}" for share in said[1:])
    print(f"{name:<22}{hours:>7.2f}{said.inside:>8.0%}{first:>27}{second:>8}{third:>10}{fourth:>7}", flush=True)


def main() -> None:
    seeds = range(1, 1 + int(sys.argv[1])) if len(sys.argv) > 1 else range(1, 3)
    chosen = sys.argv[2:] or list(kinds(0))
    print(f"{'run, seed':<22}{'hours':>7}{'inside':>8}   ± at 10 %: of the rest, of all   at half")
    runs, hours = list[Judged](), list[float]()
    for name in chosen:
        for seed in seeds:
            seconds, seen = watched(kinds(seed)[name], seed)
            runs.append(judged(seconds, seen))
            hours.append(seconds / 3600)
            show(f"{name}, {seed}", hours[-1], runs[-1])
    show("all, mean", mean(hours), Judged(*(mean(column) for column in zip(*runs, strict=True))))
    print(
        f"least inside {min(r.inside for r in runs):.0%}, widest {max(r.left_10 for r in runs):.1%} and "
        f"{max(r.left_50 for r in runs):.1%} of the rest, {max(r.whole_50 for r in runs):.1%} of all at half"
    )


if __name__ == "__main__":
    main()
