"""What one answer costs the client: CPU a request, draftmill next to a bare aiohttp loop, speculators and httpx.

A server on the loopback interface answers at once (500 ids in, 1,000 out), so that all the time is the client's.
draftmill does everything that it does in a run: checks, journal with sync, standing. The bare loop reads the same
prompts, sends the same bytes, encoded as fast, and writes the raw reply to a file. speculators' command
``regenerate-responses`` is told nothing but where to read and write; what it does before its first request (imports,
tokenizer) is left out. Each client runs in a process of its own; CPU is user + system time. The peers' environment is
made on the first run (see ``peers``). "streamed" is draftmill's way unless a recipe turns it off; the others read one
reply a call.

``large`` is the other half: the memory of a process that holds a dataset of a million prompts and has 4,000 requests in
flight for a minute.

Usage: bench_client_cost.py [REQUESTS]
       bench_client_cost.py large [PROMPTS [SECONDS]]
"""

import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import clients
import loopback
import peers
from clients import Cost

from draftmill.journal.folder import DatasetFolder

AT_ONCE = (64, 512, 2000, 4000)
ROUNDS = 9  # turn about: the least of each, since whatever else the machine does only adds to it, and the medians
AT_ONCE_SPEED = 1e9  # tokens a second of a streamed answer
LARGE = 4000  # requests in flight
BARE, OURS, STREAMED = "bare aiohttp", "draftmill", "draftmill, streamed"
PEERS = {"speculators": 2000, "httpx": 512}  # and the most at once that they are asked for


def table(url: str, count: int, at_once: int) -> dict[str, list[Cost]]:
    """What each client takes for ``count`` requests, in each round."""
    took: dict[str, list[Cost]] = defaultdict(list)
    for number in range(ROUNDS):
        for name in (BARE, OURS, STREAMED)[:: -1 if number % 2 else 1]:
            warm = at_once if name == STREAMED else 0  # of these too few are asked for as fast as they come
            took[name].append(clients.measured(name, url, count + warm, at_once, warm))
        for name, most in PEERS.items():
            if at_once <= most and number == 0:
                few = max(at_once, count // 4) if name == "httpx" else count
                cost = peers.measured(name, url, few, at_once)
                took[name].append(cost._replace(cpu=cost.cpu * count / few, wall=cost.wall * count / few))
    return took


def least_and_median(costs: list[Cost]) -> tuple[float, float]:
    """CPU seconds."""
    seconds = [cost.cpu for cost in costs]
    return min(seconds), median(seconds)


def main(count: int) -> None:
    peers.ready()
    head = f"{'CPU ms a request':>18}{'of bare':>9}{'by medians':>12}{'of ours':>9}{'requests/s':>12}{'MiB':>6}"
    with loopback.running(speed=AT_ONCE_SPEED) as url:
        print(f"{'at once':>8}  {'client':<20}{head}")
        for at_once in AT_ONCE:
            took = table(url, count, at_once)
            least, middle = least_and_median(took[BARE])
            for name, costs in took.items():
                cost = min(costs)
                of_ours, by_medians = cost.cpu / min(took[OURS]).cpu, least_and_median(costs)[1] / middle
                print(
                    f"{at_once:>8}  {name:<20}{1000 * cost.cpu / count:>18.3f}{cost.cpu / least:>8.2f}x"
                    f"{by_medians:>11.2f}x{of_ours:>8.1f}x{count / cost.wall:>12.0f}{cost.mib:>6.0f}",
                    flush=True,
                )


def large(prompts: int, seconds: float) -> None:
    print(f"{prompts:,} prompts of {loopback.PROMPT} ids, {LARGE:,} at once for {seconds:.0f} s")
    head = f"{'MiB then':>10}{'in flight':>11}{'answers':>9}{'cores':>7}{'MiB at most':>13}"
    print(f"{'answers come':<14}{'opened in s':>12}{head}")
    with tempfile.TemporaryDirectory() as folder, loopback.running() as url:
        clients.write_many(DatasetFolder(Path(folder, "bench")), prompts)
        for way, checkpoint in (("at once", 0.0), ("streamed", 1.0)):
            said = clients.held(clients.Job(url, prompts, LARGE, 0, checkpoint, folder), seconds)
            print(
                f"{way:<14}{said['opened']:>12.1f}{said['opened_mib']:>10.0f}{said['most']:>11.0f}"
                f"{said['answers']:>9.0f}{said['cores']:>7.2f}{said['mib']:>13.0f}",
                flush=True,
            )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["large", *given]:
            large(int(given[0]) if given else 1_000_000, float(given[1]) if given[1:] else 60.0)
        case given:
            main(int(given[0]) if given else 4000)
