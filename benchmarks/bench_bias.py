"""Whether the rows that count are a fair sample, and what is generated beyond the budget, at full size.

Log-normal answers of mean 3,800, cut at 10,240, 150 at once, budget 10 M, on a toy server in virtual time that drives
the real dispatch (``Stream``) and the real cut (``Standing``). Beside it the same run with the ways of others: the
first to finish count, and what was in flight at a kill is drawn afresh. ``z`` is how many standard errors the mean
length of the counting rows lies from the population's.

Usage: bench_bias.py [SEEDS] [SIGMA]...
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.mill.toy_run import Sample, Stop, ToyRun, ids_of, write_prompts
from tests.mill.world import World

FAIR, UNFAIR = "fair", "biased"
# name, what becomes of answers in flight at three stops, and what is claimed of it
POLICIES = [
    ("no stop", None, FAIR),
    ("3 graceful stops, continued", Stop("keep"), FAIR),
    ("3 kills, checkpoints every 1 s", Stop("checkpoint", every=1), FAIR),
    ("3 kills, checkpoints every 30 s", Stop("checkpoint", every=30), ""),
    ("3 kills, drawn afresh", Stop("redraw"), UNFAIR),
    ("first to finish", "naive", UNFAIR),
]


def sample(folder: Path, world: World, policy: object, seeds: int) -> Sample:
    files = write_prompts(folder / "a", world)
    ids = ids_of(files)
    taken = Sample(world)
    for seed in range(seeds):
        run = ToyRun(files, ids, world, seed)
        taken.outcomes.append(run.run(policy) if policy is None or isinstance(policy, Stop) else run.first_to_finish())
    return taken


def main(seeds: int, sigmas: list[float]) -> int:
    broken = []
    heads = ("mean length", "z", "surplus", "at worst", "time", "µs a row")
    print(f"{'σ':>4}  {'policy':<32}" + "".join(f"{head:>12}" for head in heads))
    for sigma in sigmas:
        for name, policy, claim in POLICIES:
            began = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                taken = sample(Path(folder), World(sigma=sigma), policy, seeds)
            spent = time.process_time() - began
            surplus, z = taken.surplus(), taken.z()
            rows = sum(outcome.rows for outcome in taken.outcomes)
            stretch = sum(outcome.stretch for outcome in taken.outcomes) / seeds
            figures = (f"{taken.bias():+.2%}", f"{z:+.1f}", f"{surplus[seeds // 2]:.2%}", f"{surplus[-1]:.2%}")
            figures += (f"{stretch:.2f}x", f"{1e6 * spent / rows:.0f}")
            print(f"{sigma:>4}  {name:<32}" + "".join(f"{figure:>12}" for figure in figures), flush=True)
            if claim == FAIR and (abs(z) > 3 or surplus[seeds // 2] > 0.01 or surplus[-1] > 0.04):
                broken.append(f"σ {sigma}, {name}")
            if claim == UNFAIR and z > -6:
                broken.append(f"σ {sigma}, {name}: no bias seen")
    print("fair: |z| ≤ 3, surplus ≤ 1 % in the median and ≤ 4 % at worst;", f"broken: {'; '.join(broken) or 'none'}")
    return 1 if broken else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(int(arguments[0]) if arguments else 200, [float(a) for a in arguments[1:]] or [0.9, 1.2]))
