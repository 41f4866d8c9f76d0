"""What looking at a large run costs: the first answer, each later one, and the run itself.

The run's files are synthetic, as in bench_resume.py: every prompt but the last has a completion of 200 ids, and the
index is there. Then lines are added, as a run adds them, with a look after each second's worth. Last the writer of a
journal is timed, with nobody looking and with a monitor that looks every half second.

Usage: bench_monitor.py [POSITIONS]   (30,000; the bar is 1,000,000)
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_resume import ANSWER, POSITIONS, PROMPT, make, memory

from draftmill.journal.folder import RunFolder
from draftmill.journal.index import entries
from draftmill.journal.reader import encode
from draftmill.journal.writer import Appender
from draftmill.ledger.order import conversation_id
from draftmill.records import Completion, Finish
from draftmill.watch.stats import RunWatch

LOOKS, EACH = 30, 20  # looks, and lines that come between two of them
ROUNDS, LINES = 7, 3000


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


def writing(folder: Path, n: int) -> float:
    """Lines a second of an appender that syncs each group, as a run's scribe does, and works in between."""
    lines = [line(i) for i in range(64)]
    appender = Appender(folder / f"journal{n}.jsonl")
    began = time.process_time()
    for start in range(0, LINES, 20):
        appender.append([lines[(start + i) % 64] for i in range(20)])
        time.sleep(0.005)
    spent = time.process_time() - began
    appender.close()
    return spent


def main(positions: int) -> None:
    print(f"{'completions':>11} {'first look s':>12} {'later ms':>12} {'at most ms':>12} {'MiB resident':>12}")
    for number in (max(100, positions // 10), positions):
        with tempfile.TemporaryDirectory() as place:
            folder = RunFolder(Path(place)).dataset("b")
            make(folder, number)
            for _ in entries(folder.journal, folder.journal_index):
                pass
            from draftmill.journal.prompts import index_of

            index_of(folder.prompts, folder.prompts_index)
            subprocess.run([sys.executable, __file__, "looks", place, str(number)], check=True)
    attached()


def attached() -> None:
    """How long the same journal takes to be written with and without a monitor beside it, in turn."""
    alone, beside = [], []
    with tempfile.TemporaryDirectory() as place:
        run = RunFolder(Path(place))
        make(run.dataset("b"), 20_000)
        for n in range(ROUNDS):
            alone.append(timed(Path(place), f"a{n}"))
            watcher = subprocess.Popen([sys.executable, __file__, "watch", place], stdout=subprocess.PIPE)
            assert watcher.stdout
            watcher.stdout.readline()
            beside.append(timed(Path(place), f"b{n}"))
            watcher.kill()
            watcher.wait()
    less = 1 - statistics.median(alone) / statistics.median(beside)
    print(f"\na journal of {LINES:,} lines, {os.cpu_count()} cores: {statistics.median(alone):.2f} s alone, ", end="")
    print(f"{statistics.median(beside):.2f} s with a monitor that looks twice a second: {less:+.2%}")


def timed(place: Path, name: str) -> float:
    """Wall seconds of writing a journal paced by its syncs."""
    lines = [line(i) for i in range(64)]
    appender = Appender(place / "b" / f"raw_responses.{name}")
    began = time.perf_counter()
    for start in range(0, LINES, 20):
        appender.append([lines[(start + i) % 64] for i in range(20)])
        time.sleep(0.02)
    appender.close()
    return time.perf_counter() - began


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
        case arguments:
            main(int(arguments[0]) if arguments else POSITIONS)
