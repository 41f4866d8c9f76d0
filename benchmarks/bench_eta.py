"""Whether the end that the monitor foresees comes in the range that it states, on whole runs in virtual time.

Each run is the real loop on simulated servers; every minute or so of it the monitor looks at its files, and what it
said is compared with the end that came. Said of each run: how often the end lay in the range from 10 % of the tokens
on, and the range's half width at 10 % and at half, as a share of what was left, and of the whole run.

Usage: bench_eta.py [SHARE [NAME …]]   (0.1 of the full sizes, where short runs end in a tail that few answers decide; 1
takes an hour of CPU)
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from statistics import mean

from draftmill.engines.simulated import Lengths
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
AUTO = {"short": Lane(max_new_tokens=10_240), "long": Lane(max_new_tokens=16_384)}


def scenes() -> dict[str, Scene]:
    """Full-size runs of an hour to a day."""
    short = {"short": Lane(max_new_tokens=10_240)}
    mixed = (
        SceneDataset("a", 20_000, 200, Lengths(800)),
        SceneDataset("b", 20_000, 400, Lengths(1500), budget=15_000_000),
        SceneDataset("c", 1_000, 3000, Lengths(2500), "long"),
    )
    return {
        "prompts end it": Scene((SceneDataset("a", 40_000, 200, Lengths(1000)),), short, concurrency=60),
        "a budget ends it": Scene((SceneDataset("a", 60_000, 200, Lengths(1000), budget=40_000_000),), short, seed=1),
        "mixed": Scene(mixed, AUTO, concurrency="auto", seed=2),
        "the reference run": Scene(REFERENCE.datasets, AUTO, concurrency="auto", seed=3),
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


def watched(scene: Scene, every: float) -> tuple[float, list[tuple[float, int, Eta | None]]]:
    """Seconds of a run, and at each look (when, tokens until then, what was foreseen)."""
    seen: list[tuple[float, int, Eta | None]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place) / "run")
        settings(folder, scene)

        async def look(stage: Stage) -> None:
            watch = RunWatch(folder.path, now=clock.now)
            while True:
                await asyncio.sleep(every)
                total = watch.refresh().total
                seen.append((clock.now(), total.generated + total.growing, total.eta))

        report = rehearse(scene, folder=folder.path, during=look, limits=Limits(checkpoint=10.0))
    return report.seconds, seen


def judged(seconds: float, seen: list[tuple[float, int, Eta | None]]) -> dict[str, float]:
    """How good the ranges of one run were."""
    whole = seen[-1][1]
    told = [(time, tokens / whole, eta) for time, tokens, eta in seen if eta and tokens >= 0.1 * whole]
    inside = [eta.low <= seconds - time <= eta.high for time, _, eta in told]
    at_half = next(n for n, (_, share, _) in enumerate(told) if share >= 0.5)
    widths = {}
    for name, (time, _, eta) in (("10", told[0]), ("50", told[at_half])):
        half = (eta.high - eta.low) / 2
        widths |= {f"left {name}": half / eta.seconds, f"whole {name}": half / (time + eta.seconds)}
    return {"inside": mean(inside), **widths}


def main() -> None:
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1
    chosen = sys.argv[2:] or list(scenes())
    print(f"{'run × ' + format(share, 'g'):<20}{'hours':>7}{'inside':>8}   ± at 10 %: of the rest, of all   at half")
    for name in chosen:
        scene = scenes()[name].scaled(share)
        tokens = sum(d.budget or d.prompts * d.answers.mean for d in scene.datasets)
        seconds, seen = watched(scene, max(20.0, tokens / 850 / LOOKS))
        said = judged(seconds, seen)
        widths = [f"{said[f'{part} {at}']:.1%}" for at in ("10", "50") for part in ("left", "whole")]
        first, second, third, fourth = widths
        line = f"{name:<20}{seconds / 3600:>7.2f}{said['inside']:>8.0%}{first:>27}{second:>8}{third:>10}{fourth:>7}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
