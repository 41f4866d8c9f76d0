"""What verifying costs: tokens a second and memory, of a file of ROWS rows of 1,000 tokens, all checks that it allows.

The rows are made of the tokens of the example prompts in ever other order, with the small model's chat template around
them, so that each row is another one and pieces are as frequent as in text. Memory is that of all processes together.

Usage: bench_verify.py [ROWS] [WORKERS]
"""

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from draftmill.engines.small_model import small_model
from draftmill.examples import QUICKSTART
from draftmill.render import tokenizer as tokenizers

ROWS, WORKERS, TOKENS, PROMPT = 100_000, 2, 1000, 200


def make(path: Path, rows: int, model: str) -> int:
    """Write the rows. Returns the length of one."""
    tokenizer = tokenizers.load(model)
    text = "".join(file.read_text() for file in sorted(QUICKSTART.glob("*.jsonl")))
    words = tokenizer.encode([text])[0]
    spans = [words[at : at + 40] for at in range(0, len(words) - 40, 7)]
    texts = [",".join(map(str, span)) for span in spans]
    head, tail = tokenizer.encode(["<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"])
    end, rng = tokenizer.special["<|im_end|>"], random.Random(0)
    before = PROMPT // 40
    after = (TOKENS - before * 40 - len(head) - len(tail)) // 40
    learnt = after * 40 + 1
    masked = len(head) + before * 40 + len(tail)
    mask = ",".join(["0"] * masked + ["1"] * learnt)
    first, middle = ",".join(map(str, head)), ",".join(map(str, tail))
    with path.open("w") as file:
        for _ in range(rows):
            chosen = rng.choices(texts, k=before + after)
            ids = ",".join([first, *chosen[:before], middle, *chosen[before:], str(end)])
            file.write(f'{{"input_ids":[{ids}],"loss_mask":[{mask}]}}\n')
    return masked + learnt


def memory(pid: int) -> float:
    """MiB of a process and its children, shared pages divided among those that share them."""
    total = 0.0
    for each in [pid, *children(pid)]:
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)
    return total


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return found + [grandchild for child in list(found) for grandchild in children(child)]


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    workers = sys.argv[2] if len(sys.argv) > 2 else str(WORKERS)
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / "rows.jsonl", Path(folder) / "model"
        tokenizers.load(str(small_model())).save(model)
        tokens = rows * make(path, rows, str(model))
        size = path.stat().st_size / 1e6
        command = [sys.executable, "-m", "draftmill", "verify", str(path), "--model", str(model), "--workers", workers]
        began = time.perf_counter()
        with subprocess.Popen(command, env=os.environ | {"COLUMNS": "160"}) as process:
            peak = 0.0
            while process.poll() is None:
                peak = max(peak, memory(process.pid))
                time.sleep(0.5)
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = used.ru_utime + used.ru_stime
        print(f"{rows:,} rows, {size:,.0f} MB, {workers} processes: {seconds:.1f} s in all, start included")
        print(f"{tokens / seconds / 1e6:.2f} M tokens/s, at most {peak:,.0f} MiB")
        print(f"{cpu:.1f} s of processor time: {tokens / cpu / 1e6:.2f} M tokens for each, busy machine or not")


if __name__ == "__main__":
    main()
