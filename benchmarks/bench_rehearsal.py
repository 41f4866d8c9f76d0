"""The reference run at a fiftieth in virtual time: how long it would take, and what rehearsing it costs.

The loop as it is, with its fixed concurrency of 150 and 32, all datasets through one queue and each after the other,
on one simulated server (159,277 tokens of KV cache, decode steps of 41.5 ms + 0.44 ms a sequence).

Usage: bench_rehearsal.py [SHARE]   (0.02; 1 is the whole run of 80 M tokens, half a minute of CPU)
"""

import sys

from draftmill.mill.rehearsal import Report, rehearse
from draftmill.mill.scene import REFERENCE


def describe(name: str, report: Report) -> None:
    counted = sum(tally.counting_tokens for tally in report.tallies.values())
    busy = [m.running for m in report.timeline[:-1]]
    print(
        f"{name:<18} {report.seconds / 3600:6.2f} h  {report.rate:5.0f} tok/s  {counted / 1e6:6.2f} M tokens count  "
        f"surplus {sum(report.surplus.values()) / counted:6.1%}  recomputed {report.recomputed:5.2%}  "
        f"{sum(busy) / len(busy):5.1f} running on average  {report.cpu:5.1f} s CPU"
    )


def main() -> None:
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 0.02
    scene = REFERENCE.scaled(share)
    print(f"the reference run × {share:g}: {sum(d.budget or 0 for d in scene.datasets) / 1e6:g} M tokens of budget")
    together, apart = rehearse(scene), rehearse(scene, one_by_one=True)
    describe("one queue", together)
    describe("one after another", apart)
    print(f"one queue is {apart.seconds / together.seconds:.2f} × as fast")


if __name__ == "__main__":
    main()
