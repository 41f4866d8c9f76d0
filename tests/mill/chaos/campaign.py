"""Many rounds of chaos, each drawn from a seed and its number, and what is told of them."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from draftmill.engines.simulated import Kind
from tests.mill.chaos import processes, virtual
from tests.mill.chaos.outcome import Outcome

REAL_EVERY = 10  # one round in ten is played with real processes
STRUCK = (  # what must have struck in a campaign of many rounds
    *(kind.name.lower() for kind in Kind),
    *("kill", "power cut", "interrupt", "server killed"),
    *("torn line", "zeros", "cut line", "garbage", "disk full", "failed sync", "failed truncation"),
)


def play(seed: str, number: int) -> Outcome:
    """One round, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        if number % REAL_EVERY == REAL_EVERY - 1:
            return processes.play(f"{seed}/{number}", Path(folder))
        return virtual.play(virtual.KINDS[number % len(virtual.KINDS)], f"{seed}/{number}", Path(folder))


def campaign(seed: str, numbers: range, at_once: int) -> Iterator[tuple[int, Outcome]]:
    """Rounds with their numbers, as they end in order."""
    with ProcessPoolExecutor(at_once) as pool:
        yield from zip(numbers, pool.map(play, [seed] * len(numbers), numbers), strict=True)


def table(outcomes: list[Outcome]) -> Iterator[str]:
    """One line for each kind of round, then what struck, and how the starts were to end."""
    kinds = {outcome.kind: [o for o in outcomes if o.kind == outcome.kind] for outcome in outcomes}
    heads = ("rounds", "starts", "faults struck", "answers", "continued", "redrawn", "broken")
    yield f"{'kind of round':<18}" + "".join(f"{head:>15}" for head in heads)
    for kind, of_kind in [*kinds.items(), ("all", outcomes)]:
        figures = total(of_kind, "figures")
        answers = max(1, figures["answers"])
        cells = (
            str(len(of_kind)),
            str(total(of_kind, "starts").total()),
            str(sum(total(of_kind, "struck")[name] for name in STRUCK)),
            str(figures["answers"]),
            f"{figures['continued'] / answers:.1%}",
            f"{figures['redrawn'] / answers:.1%}",
            str(sum(bool(o.violations) for o in of_kind)),
        )
        yield f"{kind:<18}" + "".join(f"{cell:>15}" for cell in cells)
    yield ""
    struck = total(outcomes, "struck")
    for name, meaning in _MEANINGS.items():
        yield f"{name:<18}{struck[name]:>8}  {meaning}"
    yield ""
    yield "starts: " + ", ".join(f"{count} {name}" for name, count in total(outcomes, "starts").most_common())
    figures = total(outcomes, "figures")
    yield (
        f"of the answers in virtual time {figures['drawn twice']} had been begun more than once from their first id; "
        f"{figures['of them unmarked']} of these do not say so, {figures['marked in vain']} others do"
    )


def total(outcomes: list[Outcome], name: str) -> Counter[str]:
    summed: Counter[str] = Counter()
    for outcome in outcomes:
        summed.update(getattr(outcome, name))
    return summed


_MEANINGS = {kind.name.lower(): f"calls: the server {kind.value}" for kind in Kind} | {
    "kill": "kill -9 of the run, many of them in the middle of a write or sync",
    "power cut": "only what was synced is left, and a random part of the rest",
    "interrupt": "Ctrl-C or SIGTERM, some of them twice",
    "server killed": "kill -9 of a server's process, which then starts again",
    "torn line": "a kill or power cut left part of a line",
    "zeros": "a power cut left zeros behind a part of the last write",
    "cut line": "files cut inside their last line by hand",
    "garbage": "garbage behind a file's last line, by hand",
    "disk full": "writes that failed for want of space",
    "failed sync": "syncs that failed",
    "failed truncation": "cutting a torn write away failed too",
}
