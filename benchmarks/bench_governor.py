"""The governor against the best fixed concurrency, on simulated servers in virtual time.

Each server has an endless backlog of one kind of request. Measured is what it does from the 15th minute on: tokens a
second, the share of them that is computed again after a retraction, and the requests that wait in its queue for each
that runs. A look at which more than a quarter of what runs waits is "sent" where that many wait which have never run:
the others are those that the server threw back itself. "best" is the fixed concurrency of the sweep with the highest
rate; "best at 1 %" the one among those that compute at most 1 % again. All figures are means over the seeds.

Long answers in a small KV cache are thrown back most. How many run at once decides how well chance evens out, so that
server is there in three sizes.

Usage: bench_governor.py [HOURS] [SEEDS] [SERVER ...]   (2.5; 3; the names of CASES)
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import NamedTuple

from draftmill.engines.simulated import Lengths, ServerSpec, Speed
from draftmill.mill.loop import Limits
from draftmill.mill.rehearsal import Report, Stage, rehearse
from draftmill.mill.scene import Scene, SceneDataset
from draftmill.recipe import Lane

WARM = 900.0
_LOOK = 10.0
_ODD = 3.3  # seconds, so that the end falls on nobody's timer


class Case(NamedTuple):
    """A server, what it is asked for, and the fixed concurrencies of the sweep."""

    spec: ServerSpec
    answers: Lengths
    prompt_tokens: int
    limit: int
    sweep: tuple[int, ...]

    def scene(self, concurrency: int | str, seconds: float, seed: int = 0) -> Scene:
        """More prompts than it can answer in this time."""
        prompts = 2000 + int(3 * seconds * self.spec.speed.rate(self.sweep[-1]) / self.answers.mean)
        return Scene(
            datasets=(SceneDataset("backlog", prompts, self.prompt_tokens, self.answers),),
            lanes={"short": Lane(max_new_tokens=self.limit)},
            servers=(self.spec,),
            concurrency=concurrency,
            seed=seed,
        )


def retraction_prone(kv_tokens: int, *sweep: int) -> Case:
    return Case(ServerSpec(kv_tokens=kv_tokens), Lengths(3800.0), 200, 16_384, (4, *sweep))


CASES = {
    "kv-bound": Case(ServerSpec(), Lengths(3800.0), 400, 10_240, (4, 40, 44, 48, 56, 72, 100, 150)),
    "compute-bound": Case(
        ServerSpec(kv_tokens=4_000_000, speed=Speed(0.01, 0.002)), Lengths(800.0), 300, 4096, (4, 32, 64, 128, 256, 512)
    ),
    "retraction-prone": retraction_prone(100_000, 18, 20, 21, 22, 24, 28, 32, 40, 64),
    "retraction-prone-160k": retraction_prone(160_000, 34, 36, 38, 42, 50, 64, 100),
    "retraction-prone-300k": retraction_prone(300_000, 70, 80, 90, 110, 150, 200),
    "tiny": Case(
        ServerSpec(kv_tokens=8_000, speed=Speed(0.02, 0.001)), Lengths(400.0), 100, 1000, (4, 12, 14, 16, 20, 24, 32)
    ),
}


class Seen(NamedTuple):
    """From ``WARM`` on. ``queue``: waiting for each that runs, on average; ``long``: the share of looks above 0.25;
    ``sent``: of looks above it by requests that have never run, which the governor answers for."""

    rate: float
    recomputed: float
    queue: float
    long: float
    sent: float
    caps: tuple[int, int]
    changes: int
    report: Report


def measure(case: Case, concurrency: int | str, seconds: float, warm: float = WARM, seed: int = 0) -> Seen:
    """Play a server with a fixed concurrency, or with ``auto``."""
    counts: list[tuple[float, int, int]] = []
    looks: list[tuple[int, int, int, int]] = []

    async def watch(stage: Stage) -> None:
        await asyncio.sleep(warm)
        (host,), (seat,) = stage.hosts, stage.loop.seats
        while True:
            counters, load = host.server.counted(host.now()), host.server.load(host.now())
            counts.append((asyncio.get_running_loop().time(), counters.generated, counters.recomputed))
            new = sum(not sequence.retractions for sequence in host.server.queue)
            looks.append((load.running, load.queued, new, seat.ceiling))
            await asyncio.sleep(_LOOK)

    scene = case.scene(concurrency, seconds, seed)
    report = rehearse(scene, kill_at=seconds + _ODD, during=watch, every=1e9, limits=Limits(checkpoint=None))
    assert report.ending is None, "the backlog was too small"
    (begin, before, lost_before), (end, after, lost) = counts[0], counts[-1]
    return Seen(
        rate=(after - before) / (end - begin),
        recomputed=(lost - lost_before) / (after - before),
        queue=sum(queued for _, queued, _, _ in looks) / sum(running for running, *_ in looks),
        long=sum(queued > 0.25 * running for running, queued, _, _ in looks) / len(looks),
        sent=sum(new > 0.25 * running for running, _, new, _ in looks) / len(looks),
        caps=(min(cap for *_, cap in looks), max(cap for *_, cap in looks)),
        changes=sum(kind == "cap" and at >= warm for at, kind, _, _ in report.told),
        report=report,
    )


def mean(seen: Sequence[Seen]) -> Seen:
    """The figures of several seeds as one."""

    def of(name: str) -> float:
        return sum(getattr(one, name) for one in seen) / len(seen)

    caps = min(one.caps[0] for one in seen), max(one.caps[1] for one in seen)
    shares = of("recomputed"), of("queue"), of("long"), of("sent")
    return Seen(of("rate"), *shares, caps, round(of("changes")), seen[0].report)


def describe(name: str, seen: Seen) -> None:
    print(
        f"  {name:>8} {seen.rate:6.1f} tok/s  recomputed {seen.recomputed:6.2%}  queue {seen.queue:5.1%} of running, "
        f"above a quarter {seen.long:5.1%} of the time, sent {seen.sent:5.1%}  at most {seen.caps[0]}-{seen.caps[1]}",
        flush=True,
    )


def main() -> None:
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 2.5
    seeds = range(int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    for name in sys.argv[3:] or CASES:
        case = CASES[name]
        print(name)
        fixed = {cap: mean([measure(case, cap, 3600 * hours, seed=seed) for seed in seeds]) for cap in case.sweep}
        for cap, seen in fixed.items():
            describe(str(cap), seen)
        auto = mean([measure(case, "auto", 3600 * hours, seed=seed) for seed in seeds])
        describe("auto", auto)
        best = max(seen.rate for seen in fixed.values())
        tidy = max(seen.rate for seen in fixed.values() if seen.recomputed <= 0.01)
        hourly = auto.changes / (hours - WARM / 3600)
        print(
            f"  auto is {auto.rate / best:.1%} of the best, {auto.rate / tidy:.1%} of the best at 1 % (a fixed 4: "
            f"{fixed[4].rate / best:.0%}); {hourly:.0f} changes an hour"
        )


if __name__ == "__main__":
    main()
