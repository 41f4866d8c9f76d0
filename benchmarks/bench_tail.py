"""No idle tail: the reference run at full budgets, at a tenth and at a fiftieth, against what no order can beat.

The bound is the tokens that count ÷ the steady rate with an endless backlog of the same mix (the middle of a run of
80 M tokens), or the longest single answer alone on the server, whichever is greater. Concurrency is found by the
governor, or fixed at 60, which is the KV pool ÷ the 3,740 tokens that a request of this mix holds on average (43 run),
and 40 % more, which wait: the best fixed number of this mix. The bound takes the better of the two steady rates. Next
to them dataset after dataset at a fixed 150 and 32, and the order "one-by-one".

Usage: bench_tail.py [SHARE …]   (0.02 0.1 1; the whole run takes five minutes of CPU)
"""

import sys

import msgspec

from draftmill.mill.loop import Limits
from draftmill.mill.rehearsal import Report, rehearse
from draftmill.mill.scene import REFERENCE, Scene

AT_ONCE = 60
LIMITS = Limits(checkpoint=None)  # partial lines say nothing of the time here and cost most of the CPU
BARS = {1: (1.05, 1.01), 0.1: (1.10, 1.10), 0.02: (1.30, 1.5)}  # of the bound at most, as fast as apart at least
RECOMPUTED = 0.01
_FROM, _TO = 3_000.0, 30_000.0  # seconds of the middle


def steady_rate(scene: Scene) -> float:
    """Tokens a second in the middle of a long run: beginning and end left out."""
    report = rehearse(scene, limits=LIMITS, kill_at=_TO)
    middle = [m for m in report.timeline if m.time >= _FROM]
    return (middle[-1].generated - middle[0].generated) / (middle[-1].time - middle[0].time)


def bound(scene: Scene, report: Report, rate: float) -> float:
    """Seconds that no order of the same tokens can beat."""
    longest = max(lane.max_new_tokens for lane in scene.lanes.values()) * scene.servers[0].speed.step(1)
    return max(sum(t.counting_tokens for t in report.tallies.values()) / rate, longest)


def describe(name: str, report: Report, rate: float) -> None:
    least = bound(REFERENCE, report, rate)
    counted = sum(t.counting_tokens for t in report.tallies.values())
    print(
        f"  {name:<22} {report.seconds / 3600:6.2f} h  {report.seconds / least:6.3f} × the bound  "
        f"recomputed {report.recomputed:5.2%}  surplus {sum(report.surplus.values()) / counted:5.1%}  "
        f"{report.cpu:4.1f} s CPU"
    )


def main() -> None:
    shares = [float(word) for word in sys.argv[1:]] or sorted(BARS)
    scenes = {what: msgspec.structs.replace(REFERENCE, concurrency=what) for what in ("auto", AT_ONCE)}
    rates = {what: steady_rate(scene) for what, scene in scenes.items()}
    print("steady rate of the mix: " + ", ".join(f"{rate:.0f} tok/s at {what}" for what, rate in rates.items()))
    missed = []
    best = max(rates.values())
    for share in shares:
        apart = rehearse(REFERENCE.scaled(share), one_by_one=True, limits=LIMITS)
        print(f"the reference run × {share:g}: {bound(REFERENCE, apart, best) / 3600:.2f} h at least")
        describe("apart, at 150 and 32", apart, best)
        for what, scene in scenes.items():
            together = rehearse(scene.scaled(share), limits=LIMITS)
            describe(f"together, {what}", together, best)
            print(f"{'':24} {apart.seconds / together.seconds:.3f} × as fast as apart")
            missed += [f"× {share:g}, {what}: {miss}" for miss in misses(share, together, apart, best)]
        one_by_one = rehearse(msgspec.structs.replace(scenes["auto"].scaled(share), order="one-by-one"), limits=LIMITS)
        describe("one-by-one, auto", one_by_one, best)
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def misses(share: float, together: Report, apart: Report, rate: float) -> list[str]:
    """What a run lacks of what is asked for at this scale."""
    most, faster = BARS.get(share, (float("inf"), 0.0))
    found = []
    if together.seconds > most * bound(REFERENCE, together, rate):
        found.append("time")
    if apart.seconds < faster * together.seconds:
        found.append("speed beside apart")
    if together.recomputed > RECOMPUTED:
        found.append("recomputed")
    return found


if __name__ == "__main__":
    main()
