"""What looking at a large run costs: the first answer, each later one, and the run itself.

The run's files are synthetic, as in bench_resume.py: every prompt but the last has a completion of 200 ids, and the
index is there. Then lines are added, as a run adds them, with a look after each second's worth. Last, lines are made
and appended as fast as one core can, with nobody looking and with a monitor that looks every half second.

``run`` is a run as they are: the real loop, streamed, on a server on the loopback interface whose speed bounds it (256
answers of 200 tokens at once, 50 tokens a second each), alone and with a monitor attached, turn about.

Usage: bench_monitor.py [POSITIONS]   (30,000; the bar is 1,000,000)
       bench_monitor.py run [ROUNDS]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import loopback
from bench_resume import ANSWER, POSITIONS, PROMPT, make, memory
from clients import Cost, Job

from draftmill.ids import encode
from draftmill.journal.folder import RunFolder
from draftmill.journal.index import entries
from draftmill.journal.prompts import index_of
from draftmill.ledger.order import conversation_id
from draftmill.records import Completion, Finish
from draftmill.watch.stats import RunWatch

LOOKS, EACH = 30, 20  # looks, and lines that come between two of them
ROUNDS, LINES = 5, 40_000
AT_ONCE, SERVED, TOKENS, SPEED = 256, 512, 200, 50.0  # of a run that its server bounds


def line(n: int, partial: bool = True) -> bytes:
    ids = [10 + (31 * i + n) % 40_000 for i in range(ANSWER)]
    id = conversation_id("b", b"%d" % n, 0)
    finish = Finish.ABORT if partial else Finish.STOP
    return encode(
        Completion(id, n, 0, ids, PROMPT, ANSWER, finish, 2, 0, 9.5, "http://gpu-1:30000", 4096, partial=partial)
    )


def looks(path: Path, positions: int) -> None:
    """The first look and later ones, in this process; prints a line."""
    began = time.perf_counter()
    watch = RunWatch(path)
    figures = watch.refresh()
    first = time.perf_counter() - began
    assert figures.total.generated == (positions - 1) * ANSWER, figures.total.generated
    seconds = []
    with RunFolder(path).dataset("b").journal.open("ab") as journal:
        for look in range(LOOKS):
            for n in range(EACH):
                journal.write(line(positions - 1, partial=look < LOOKS - 1 or n < EACH - 1) + b"\n")
            journal.flush()
            began = time.perf_counter()
            figures = watch.refresh()
            seconds.append(time.perf_counter() - began)
    assert figures.total.owed == 0 and figures.total.generated == positions * ANSWER
    print(
        f"{positions:>11,} {first:>12.2f} {1000 * statistics.median(seconds):>12.1f} {1000 * max(seconds):>12.1f}"
        f" {memory('VmRSS'):>12.0f}"
    )


def main(positions: int) -> None:
    print(f"{'completions':>11} {'first look s':>12} {'later ms':>12} {'at most ms':>12} {'MiB resident':>12}")
    for number in (max(100, positions // 10), positions):
        with tempfile.TemporaryDirectory() as place:
            folder = RunFolder(Path(place)).dataset("b")
            make(folder, number)
            for _ in entries(folder.journal, folder.journal_index):
                pass
            index_of(folder.prompts, folder.prompts_index)
            subprocess.run([sys.executable, __file__, "looks", place, str(number)], check=True)
    attached()


def attached() -> None:
    """The same work, lines made and appended as fast as they can be, alone and beside a monitor, in turn."""
    alone, beside, costs = [], [], []
    with tempfile.TemporaryDirectory() as place:
        make(RunFolder(Path(place)).dataset("b"), 20_000)
        for _ in range(ROUNDS):
            alone.append(work(Path(place)))
            watcher = subprocess.Popen([sys.executable, __file__, "watch", place], stdout=subprocess.PIPE)
            assert watcher.stdout
            watcher.stdout.readline()
            spent = spent_by(watcher.pid)
            beside.append(work(Path(place)))
            costs.append((spent_by(watcher.pid) - spent) / LINES)
            watcher.kill()
            watcher.wait()
    slower = statistics.median(after / before for before, after in zip(alone, beside, strict=True)) - 1
    rate = LINES / statistics.median(alone)
    print(f"\n{rate:,.0f} answers a second are journaled; beside a monitor it takes {slower:+.1%} time")
    print("(that comparison holds on a machine with a core to spare only; this is as fast as one core can write)")
    each = statistics.median(costs)
    print(
        f"the monitor takes {1e6 * each:.0f} µs of a core an answer: {50 * each:.2%} of one at 10,000 tokens a second"
    )


def bounded(rounds: int) -> None:
    """Runs that their server bounds, alone and beside a monitor, turn about."""
    alone, beside, watching = [], [], []
    with loopback.running(length=TOKENS, speed=SPEED) as url:
        for number in range(rounds):
            for watched in (False, True)[:: -1 if number % 2 else 1]:
                cost, spent = served(url, watched)
                (beside if watched else alone).append(cost)
                watching += [spent] if watched else []
    slower = [after.wall / before.wall - 1 for before, after in zip(alone, beside, strict=True)]
    walls, rate = [cost.wall for cost in alone], SERVED * TOKENS / statistics.median(c.wall for c in alone)
    noise = (max(walls) - min(walls)) / statistics.median(walls)
    print(f"{rate:,.0f} tokens a second, {statistics.median(walls):.2f} s a run; alone, runs differ by {noise:.2%}")
    middle, least, most = statistics.median(slower), min(slower), max(slower)
    print(f"with a monitor attached it takes {middle:+.2%} time ({least:+.2%} to {most:+.2%})")
    cpu = [1e6 * statistics.median(c.cpu for c in costs) / SERVED for costs in (alone, beside)]
    print(f"CPU an answer: the run {cpu[0]:.0f} µs alone, {cpu[1]:.0f} µs beside the monitor, which takes ", end="")
    print(f"{statistics.median(watching) / statistics.median(walls):.2%} of a core")


def served(url: str, watched: bool) -> tuple[Cost, float]:
    """What a run takes, and the CPU seconds of the monitor that watches it from its first line to its end."""
    with tempfile.TemporaryDirectory() as place:
        job = json.dumps(Job(url, SERVED, AT_ONCE, folder=place))
        command = [sys.executable, Path(__file__).with_name("clients.py"), "draftmill, streamed", job]
        run = subprocess.Popen(command, stdout=subprocess.PIPE)
        if not watched:
            return Cost(**json.loads(run.communicate()[0])), 0.0
        while not Path(place, "bench", "raw_responses.jsonl").exists():
            time.sleep(0.01)
        watcher = subprocess.Popen([sys.executable, __file__, "watch", place], stdout=subprocess.PIPE)
        assert watcher.stdout
        watcher.stdout.readline()
        spent = spent_by(watcher.pid)
        cost = Cost(**json.loads(run.communicate()[0]))
        spent = spent_by(watcher.pid) - spent
        watcher.kill()
        watcher.communicate()
        return cost, spent


def work(place: Path) -> float:
    """Seconds that it takes to make and append so many lines: partial ones, of the one position that is owed."""
    path = place / "b" / "raw_responses.jsonl"
    with path.open("ab", buffering=0) as journal:
        began = time.perf_counter()
        for _ in range(LINES // 20):
            journal.write(b"".join(line(19_999) + b"\n" for _ in range(20)))
        return time.perf_counter() - began


def spent_by(pid: int) -> float:
    """CPU seconds of a process; nan where the system has no such file."""
    stat = Path(f"/proc/{pid}/stat")
    fields = stat.read_text().rpartition(")")[2].split() if stat.exists() else []
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else float("nan")


def watch(path: Path) -> None:
    watched = RunWatch(path)
    watched.refresh()
    print("ready", flush=True)
    while True:
        time.sleep(0.5)
        watched.refresh()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["looks", path, number]:
            looks(Path(path), int(number))
        case ["watch", path]:
            watch(Path(path))
        case ["run", *given]:
            bounded(int(given[0]) if given else ROUNDS)
        case arguments:
            main(int(arguments[0]) if arguments else POSITIONS)
