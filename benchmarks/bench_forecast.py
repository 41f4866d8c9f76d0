"""A plan's forecast of a run's duration against the run itself, on the embedded engine.

The first 40 prompts of a dataset's order are run. From what their answers say of lengths and speed, `plan` forecasts
how long the other 200 take; then these are run. Wanted: within 15 %. Nothing else should use the machine meanwhile:
"elsewhere" is the share of its cores that did.

Usage: bench_forecast.py [--calibrate 40] [--prompts 200] [--limit 48] [--slots 4] [--out FOLDER [--only-calibrate]]

With --out the two parts can be run apart: what is done there already is not done again.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from draftmill import examples, recipe
from draftmill.cli.plan import planned
from draftmill.mill.loop import Ending, Limits
from draftmill.mill.observer import Observer
from draftmill.mill.run import open_run
from draftmill.plan.sheet import draw
from draftmill.recipe import Recipe

WITHIN = 0.15
MANNERS = ("{}", "In your own words: {}", "Think first, then answer. {}", "{} Give an example.")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("calibrate", 40), ("prompts", 200), ("limit", 48), ("slots", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only-calibrate", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = args.out or Path(place)
        folder.mkdir(exist_ok=True)
        asked = write(folder, args.calibrate + args.prompts, args.limit, args.slots)
        loaded, out = recipe.load(asked), folder / "run"
        mill(loaded, folder, out, args.calibrate)
        if args.only_calibrate:
            return
        settled, facts, demands = planned(loaded, folder, out, ())
        sheet = draw(settled.plan, facts, demands)
        assert sheet.span, sheet.speed_from
        busy, began = others(), time.monotonic()
        seconds = mill(loaded, folder, out, None)
        elsewhere = (others() - busy) / (time.monotonic() - began) / (os.cpu_count() or 1)
    off = sheet.span.seconds / seconds - 1
    print(f"{args.prompts} prompts took {seconds:.1f} s; forecast {sheet.span.seconds:.1f} s", end=" ")
    print(
        f"({sheet.span.low:.1f} to {sheet.span.high:.1f}) by {sheet.speed_from}: {off:+.1%}; elsewhere {elsewhere:.0%}"
    )
    sys.exit(abs(off) > WITHIN)


def write(folder: Path, prompts: int, limit: int, slots: int) -> Path:
    """A recipe of so many different prompts: the example's, asked in several manners."""
    files = [examples.QUICKSTART / name for name in ("chat.jsonl", "coding.jsonl")]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    texts = [row["prompt"] if "prompt" in row else row["conversations"][0]["value"] for row in rows]
    asked = [manner.format(text) for manner in MANNERS for text in texts]
    assert len(asked) >= prompts, f"there are {len(asked)} prompts"
    (folder / "chat.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in asked))
    path = folder / "recipe.yaml"
    path.write_text(
        json.dumps(
            {
                "model": "smollm2",
                "engines": [{"kind": "embedded", "slots": slots, "context": 1024, "concurrency": slots}],
                "lanes": {"short": {"max_new_tokens": limit}},
                "datasets": [{"name": "chat", "source": "chat.jsonl", "samples": prompts}],
            }
        )
    )
    return path


def mill(loaded: Recipe, base: Path, out: Path, first: int | None) -> float:
    """Run the first prompts, or all that are left. Returns the seconds that it took."""
    with open_run(loaded, base, out, observer=Observer()) as run:
        run.prepare()
        start = run.mill(Limits(), first=first).start
    assert start.ending is Ending.DONE, start.error
    return start.seconds


def others() -> float:
    """CPU seconds of all processes that are none of ours."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle = float(fields[3]) + float(fields[4])
    whole = sum(map(float, fields[:8])) - idle
    return whole / os.sysconf("SC_CLK_TCK") - ours()


def ours() -> float:
    """CPU seconds of this process and those that it started and has waited for, or that run."""
    children = Path("/proc").glob("[0-9]*/stat")
    ticks = 0.0
    for stat in children:
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == os.getpid() or int(fields[1]) == os.getpid():
            ticks += sum(map(float, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
