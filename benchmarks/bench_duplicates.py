"""How well near copies are found, how fast, and what that takes of memory.

20,000 rows of templates, arithmetic, code, prose and long shared instructions, with 2,000 near copies (edited words,
changed case, greetings, other marks) and 1,000 exact ones among them (`tests/sources/copies`). Beside it, in the same
run, what is usually done: MinHash of three-word shingles, 128 hashes, a copy from an estimated similarity on; by rensa,
and by datasketch where that is installed (signatures of a sample only). Then many rows that are no copies: what one
more row costs in time and memory.

Usage: bench_duplicates.py [ROWS] [MANY] [SEED]
"""

import random
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from rensa import RMinHash, RMinHashDeduplicator
from tests.sources.copies import Copies, copies

from draftmill.records import Conversation
from draftmill.sources.duplicates import Seen, Signer

BATCH, DECIDED = 256, 4096


def text_of(conversation: Conversation) -> str:
    return str(conversation.messages[-1]["content"])


def ours(made: Copies) -> tuple[set[int], set[int], float, float]:
    """(near copies, exact copies, µs a row to sign, µs a row to look for it)."""
    signer, seen = Signer(near=True), Seen(near=True)
    rows = len(made.rows)
    began = time.perf_counter()
    signatures = [each for at in range(0, rows, BATCH) for each in signer.sign(made.rows[at : at + BATCH])]
    signed = time.perf_counter()
    found = []
    for at in range(0, rows, DECIDED):
        found += seen.first(signatures[at : at + DECIDED], range(at, min(rows, at + DECIDED)))
    ended = time.perf_counter()
    near = {n for n, each in enumerate(found) if each and each[0] == "near"}
    exact = {n for n, each in enumerate(found) if each and each[0] == "exact"}
    return near, exact, (signed - began) / rows * 1e6, (ended - signed) / rows * 1e6


def usual(made: Copies, threshold: float) -> tuple[set[int], float]:
    """(copies, µs a row) of shingles and an estimated similarity."""
    began = time.perf_counter()
    bin = RMinHashDeduplicator(threshold=threshold, num_perm=128, use_lsh=True, num_bands=32, seed=1)
    copied = set()
    for number, row in enumerate(made.rows):
        hash = RMinHash(num_perm=128, seed=1)
        hash.update(shingles(text_of(row)))
        if bin.is_duplicate(str(number), hash):
            copied.add(number)
        else:
            bin.add(str(number), hash)
    return copied, (time.perf_counter() - began) / len(made.rows) * 1e6


def shingles(text: str) -> list[str]:
    words = text.lower().split()
    return [" ".join(words[n : n + 3]) for n in range(max(1, len(words) - 2))]


def judged(name: str, made: Copies, copied: set[int], speed: str) -> None:
    near, exact = made.near.keys(), made.exact.keys()
    hits = len(copied & near)
    wrong = len(copied - near - exact)
    precision = hits / (hits + wrong) if hits + wrong else 1.0
    print(f"{name:<34}{hits / len(near):>8.4f}{precision:>11.4f}{len(copied & exact) / len(exact):>8.3f}   {speed}")


def datasketch_speed(made: Copies) -> str:
    try:
        from datasketch import MinHash
    except ImportError:
        return "is not installed"
    began = time.perf_counter()
    for row in made.rows[:500]:
        MinHash(num_perm=128).update_batch([each.encode() for each in shingles(text_of(row))])
    return f"{(time.perf_counter() - began) / 500 * 1e6:.0f} µs a row for the signatures alone"


def many(count: int, seed: int) -> None:
    """Rows of 10 to 90 words out of 30,000, as often as words are."""
    draw = random.Random(seed)
    signer, seen = Signer(near=True), Seen(near=True)
    before = resident()
    spent, last = 0.0, 0.0
    for at in range(0, count, DECIDED):
        rows = []
        for _ in range(min(DECIDED, count - at)):
            words = [f"w{int(draw.paretovariate(0.6)) % 30_000}" for _ in range(draw.randint(10, 90))]
            rows.append(Conversation([{"role": "user", "content": " ".join(words)}]))
        signatures = signer.sign(rows)
        began = time.perf_counter()
        seen.first(signatures, range(at, at + len(rows)))
        last = (time.perf_counter() - began) / len(rows) * 1e6
        spent += last * len(rows) / 1e6
    held = (resident() - before) / len(seen)
    print(f"{len(seen):,} rows remembered: {held:.0f} bytes a row, so {held * 1e6 / 2**30:.2f} GiB for a million;")
    print(f"  looking for one took {spent / count * 1e6:.0f} µs on average, {last:.0f} µs at the end")


def resident() -> int:
    """Bytes at the peak, which is what they are while this only grows."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(rows: int = 20_000, many_rows: int = 100_000, seed: int = 0) -> None:
    made = copies(rows, rows // 10, rows // 20, seed)
    print(f"{rows:,} rows, {len(made.near):,} near copies, {len(made.exact):,} exact ones")
    print(f"{'':<34}{'recall':>8}{'precision':>11}{'exact':>8}")
    near, exact, signing, looking = ours(made)
    judged("draftmill", made, near | exact, f"{signing:.0f} µs to sign (in workers), {looking:.0f} µs to look for")
    for threshold in (0.8, 0.6, 0.4):
        copied, speed = usual(made, threshold)
        judged(f"shingles, similarity from {threshold}", made, copied, f"{speed:.0f} µs")
    print(f"datasketch: {datasketch_speed(made)}")
    many(many_rows, seed)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
