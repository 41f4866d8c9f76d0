"""Nothing is lost, repeated or wrong, whatever dies: rounds of chaos on simulated servers.

Each round is a run of two or three datasets in two lanes on one or two servers, with several starts that end by
``kill -9``, by a power cut that keeps what was synced and a torn part of the rest, by an interrupt, a full disk or a
failed sync, or go on to their end, while servers die and return, cut connections, answer 500, 401 and "queue is full",
stall, and give up what is in flight. Then it is completed in calm. After every start the files are read by a checker of
its own: what was synced is there byte for byte, no answer twice, each the one that the model gives to its prompt,
continued where its beginning was known, every state as told, nobody blamed who is not guilty; at the end the rows are
those that count. Nine rounds of ten in virtual time, one with real processes over HTTP.

Usage: bench_chaos.py [ROUNDS] [SEED] [FIRST]   (200 rounds take about 10 minutes on two cores)
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.mill.chaos.campaign import STRUCK, campaign, table, total

MANY = 100  # rounds from which on every kind of fault must have struck


def main(rounds: int, seed: str, first: int) -> int:
    began, outcomes = time.monotonic(), []
    for number, outcome in campaign(seed, range(first, first + rounds), os.cpu_count() or 1):
        outcomes.append(outcome)
        for violation in outcome.violations:
            print(f"round {number} ({outcome.kind}): {violation}", flush=True)
    print(*table(outcomes), sep="\n")
    struck = total(outcomes, "struck")
    missing = [name for name in STRUCK if not struck[name]] if rounds >= MANY else []
    broken = sum(bool(outcome.violations) for outcome in outcomes)
    print(f"{rounds} rounds of seed {seed} in {time.monotonic() - began:.0f} s: {broken} broken")
    if missing:
        print(f"never struck: {', '.join(missing)}")
    return 1 if broken or missing else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        main(
            int(arguments[0]) if arguments else 200,
            arguments[1] if len(arguments) > 1 else "0",
            int(arguments[2]) if len(arguments) > 2 else 0,
        )
    )
