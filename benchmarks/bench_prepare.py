"""How fast datasets are prepared, against a plain loop over ``apply_chat_template`` in the same run, on the same rows.

    python benchmarks/bench_prepare.py [--rows 1000000] [--loop 20000] [--cores 2] [--duplicates keep|exact|near]

Synthetic ShareGPT rows: words of the model's vocabulary drawn as words are in a language (Zipf), four in ten rows with
an earlier round. The loop reads the rows, makes messages of them, and keeps the ids: no order, no report, no file. Both
begin with a loaded tokenizer; `prepare` is ``Run.prepare``, worker processes, spool and files included. Memory is the
peak of what all its processes hold together (PSS where the kernel tells it, else RSS). Rows a second of CPU time, of
all processes, are given as well: they hardly depend on what else the machine does.
"""

import argparse
import itertools
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftmill import recipe as recipes
from draftmill.engines.small_model import small_model
from draftmill.mill.observer import Observer
from draftmill.mill.run import open_run
from draftmill.render import tokenizer as tokenizers

ROLES = {"human": "user", "gpt": "assistant"}


def write_rows(path: Path, count: int, tokenizer: Any) -> None:
    """``count`` ShareGPT rows."""
    drawn = random.Random(0)
    words = sorted(w.strip("Ġ") for w in tokenizer.get_vocab() if w.isascii() is False and w.strip("Ġ").isalpha())
    words = [w for w in words if w.isascii() and len(w) > 1]
    drawn.shuffle(words)
    weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(len(words))))

    def text(length: int) -> str:
        said = drawn.choices(words, cum_weights=weights, k=length)
        return (
            f"{' '.join(said[: length // 2]).capitalize()}, {' '.join(said[length // 2 :])} {drawn.randint(1, 2030)}."
        )

    with path.open("w") as file:
        for number in range(count):
            turns = [("human", text(drawn.randint(5, 60)) + f" ({number})")]
            if drawn.random() < 0.4:
                turns += [("gpt", text(100)), ("human", text(drawn.randint(5, 40)))]
            turns.append(("gpt", text(20)))
            file.write(json.dumps({"conversations": [{"from": who, "value": said} for who, said in turns]}) + "\n")


def plain_loop(path: Path, rows: int, tokenizer: Any) -> tuple[float, float, list[list[int]]]:
    """(rows a second, rows a second of CPU time, ids) of the loop that anybody would write."""
    ids = []
    started, used = time.perf_counter(), _cpu()
    with path.open() as file:
        for line in itertools.islice(file, rows):
            turns = json.loads(line)["conversations"][:-1]
            messages = [{"role": ROLES[turn["from"]], "content": turn["value"]} for turn in turns]
            out = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True)
            ids.append(out["input_ids"] if not isinstance(out, list) else out)
    return len(ids) / (time.perf_counter() - started), len(ids) / (_cpu() - used), ids


def _cpu() -> float:
    """Seconds of CPU time of this process and the children that have ended."""
    return sum(os.times()[:4])


class Memory(threading.Thread):
    """Looks at this process and its children twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.5):
            self.peak = max(self.peak, sum(_held(pid) for pid in _tree(os.getpid())))

    def stop(self) -> int:
        self._ended.set()
        self.join()
        return self.peak


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


def _held(pid: int) -> int:
    for name, field in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
        except OSError:
            continue
        found = [int(line.split()[1]) << 10 for line in lines if line.startswith(field)]
        if found:
            return found[0]
    return 0


class Passes(Observer):
    """When the first pass over the rows ended."""

    def __init__(self) -> None:
        self.read_until = time.perf_counter()

    def preparing(self, dataset: str, read: int, written: int) -> None:
        if not written:
            self.read_until = time.perf_counter()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--loop", type=int, default=20_000)
    options.add_argument("--cores", type=int, default=2)
    options.add_argument("--duplicates", default="keep")
    options.add_argument("--folder", type=Path, help="keep the rows there, and find them there again")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        tokenizer_folder, source = folder / "tokenizer", folder / f"rows-{chosen.rows}.jsonl"
        if not tokenizer_folder.exists():
            tokenizers.load(str(small_model())).save(tokenizer_folder)
        inner = tokenizers.load(str(tokenizer_folder)).inner
        if not source.exists():
            write_rows(source, chosen.rows, inner)
        plain_loop(source, 200, inner)
        before, cpu_before, expected = plain_loop(source, chosen.loop // 2, inner)
        used = _cpu()
        seconds, memory, first_pass, found = prepare(chosen, tokenizer_folder, source, Path(temporary), len(expected))
        cpu = chosen.rows / (_cpu() - used)
        after, cpu_after, _ = plain_loop(source, chosen.loop // 2, inner)
    loop, rate, cpu_loop = (before + after) / 2, chosen.rows / seconds, (cpu_before + cpu_after) / 2
    assert found == expected, "the ids of both are the same"
    print(f"plain loop  {loop:8,.0f} rows/s (before {before:,.0f}, after {after:,.0f}; {chosen.loop:,} rows)")
    print(
        f"prepare     {rate:8,.0f} rows/s ({chosen.rows:,} rows in {seconds:,.0f} s, {first_pass:,.0f} s of it reading)"
    )
    print(f"            {rate / loop:8.1f} times the loop, {chosen.cores} cores, duplicates: {chosen.duplicates}")
    print(f"CPU time    {cpu:8,.0f} rows/s of one core, the loop {cpu_loop:,.0f}: {cpu / cpu_loop:.1f} times")
    print(f"memory      {memory / 1e9:8.2f} GB at most, of all processes together")


def prepare(
    chosen: argparse.Namespace, tokenizer: Path, source: Path, folder: Path, compared: int
) -> tuple[float, int, float, list[list[int]]]:
    """(seconds, peak bytes, seconds of the first pass, the ids of the first rows of the source)."""
    dataset = {"name": "d", "source": str(source), "duplicates": chosen.duplicates}
    recipe = recipes.validate(
        {"model": str(tokenizer), "engines": ["http://127.0.0.1:9"], "datasets": [dataset]}, "bench"
    )
    observer, memory = Passes(), Memory()
    with open_run(recipe, folder, folder / "run", observer=observer) as run:
        memory.start()
        started = time.perf_counter()
        report = run.prepare(chosen.cores)["d"]
        seconds = time.perf_counter() - started
    peak = memory.stop()
    assert report.read == chosen.rows and report.adds_up()
    found: dict[int, list[int]] = {}
    with (folder / "run" / "d" / "prompts.jsonl").open() as file:
        for line in file:
            number = int(line[line.index('"where":"') :].split('"')[3].rpartition(":")[2])
            if number <= compared:
                found[number] = json.loads(line)["prompt_ids"]
    return seconds, peak, observer.read_until - started, [found[n] for n in sorted(found)]


if __name__ == "__main__":
    main()
