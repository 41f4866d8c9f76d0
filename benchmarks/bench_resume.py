"""What opening a large run costs: seconds until the first owed prompt is in hand, and the memory of it.

The run's files are synthetic: every prompt has PROMPT ids and all but the last one a completion of ANSWER ids. Each
opening runs in a process of its own: with no index (it is made), with the index, with a sixteenth of the journal
appended since, and with no journal at all, as a first start finds it.

Usage: bench_resume.py [POSITIONS]
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.order import conversation_id
from draftmill.records import Completion, Finish, Prompt

PROMPT, ANSWER = 20, 200
POSITIONS = 30_000


def make(folder: DatasetFolder, positions: int) -> None:
    folder.path.mkdir()
    some = [[10 + (7919 * n + 31 * i) % 40_000 for i in range(ANSWER)] for n in range(97)]
    with folder.prompts.open("wb") as prompts, folder.journal.open("wb") as journal:
        for n in range(positions):
            id, answer = conversation_id("b", b"%d" % n, 0), some[n % len(some)]
            prompts.write(encode(Prompt(id, n, "short", [], answer[:PROMPT])) + b"\n")
            if n < positions - 1:
                line = Completion(id, n, 0, answer, PROMPT, ANSWER, Finish.STOP, 2, 0, 9.5, "http://gpu-1:30000", 4096)
                journal.write(encode(line) + b"\n")


def opened(path: Path) -> None:
    """Open the dataset as a start does, up to its first prompt, and print what that took."""
    from draftmill.ledger.standing import load_standing
    from draftmill.mill.stream import Stream
    from draftmill.recipe import Dataset, Sampling

    began = time.perf_counter()
    folder = DatasetFolder(path)
    standing = load_standing(folder, budget=1 << 60)
    stream = Stream(Dataset(name="b", source="x"), folder, standing, Sampling(), limit=4096, now=time.monotonic)
    first = stream.next()
    assert first and standing.tally().adds_up() and standing.is_owed(first.position)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "resident": memory("VmRSS"), "peak": memory("VmHWM")}))


def memory(name: str) -> float:
    """MiB of this process, where the system has such a file: a child's ``ru_maxrss`` begins at its parent's."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), float("nan"))


def states(folder: DatasetFolder) -> Iterator[str]:
    """The four states in which the run is opened, one after the other."""
    yield "no index"
    yield "index"
    size = folder.journal.stat().st_size
    with folder.journal.open("r+b") as file:
        file.seek(size - size // 16)
        file.readline()
        cut = file.tell()
        newer = file.read()
        file.truncate(cut)
        folder.journal_index.unlink(missing_ok=True)
        subprocess.run([sys.executable, __file__, "open", str(folder.path)], check=True, capture_output=True)
        file.seek(cut)
        file.write(newer)
    yield "index, a 16th newer"
    folder.journal.unlink()
    yield "no journal"


def main(positions: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = DatasetFolder(Path(place) / "b")
        make(folder, positions)
        size = folder.journal.stat().st_size / (1 << 20)
        print(
            f"{positions:,} positions, a journal of {size:,.0f} MiB with {positions - 1:,} completions of {ANSWER} ids"
        )
        print(f"{'':<22}{'seconds':>9}{'MiB resident':>14}{'at most':>9}")
        for state in states(folder):
            command = [sys.executable, __file__, "open", str(folder.path)]
            said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(f"{state:<22}{said['seconds']:>9.2f}{said['resident']:>14.0f}{said['peak']:>9.0f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["open", path]:
            opened(Path(path))
        case arguments:
            main(int(arguments[0]) if arguments else POSITIONS)
