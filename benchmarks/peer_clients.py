"""The clients that run in the peers' own environment, one a process (see ``peers``).

Usage: peer_clients.py NAME URL COUNT AT_ONCE FOLDER; its last line is what it took, as JSON.
"""

import asyncio
import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import uvloop

PROMPT, STOP = 500, 2


class Clock:
    def start(self, *_: Any) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def stop(self, *_: Any) -> None:
        self.cpu, self.wall = time.process_time() - self.cpu, time.perf_counter() - self.wall


async def with_httpx(clock: Clock, url: str, count: int, at_once: int, folder: Path) -> None:
    numbers, ids = iter(range(count)), [10 + i for i in range(PROMPT)]
    params = {"max_new_tokens": 20_000, "temperature": 1.0, "stop_token_ids": [STOP]}
    limits = httpx.Limits(max_connections=None)
    clock.start()
    with (folder / "raw.jsonl").open("ab") as out:
        async with httpx.AsyncClient(limits=limits, timeout=None) as http:

            async def work() -> None:
                for _ in numbers:
                    reply = await http.post(url + "/generate", json={"input_ids": ids, "sampling_params": params})
                    out.write(json.dumps(reply.json()["output_ids"]).encode() + b"\n")

            await asyncio.gather(*(work() for _ in range(at_once)))
    clock.stop()


def with_speculators(clock: Clock, url: str, count: int, at_once: int, folder: Path) -> None:
    """``speculators regenerate-responses``, timed from where it opens its output to its own summary."""
    program = importlib.import_module("speculators.cli.regenerate_responses")
    make_folders, program.ensure_parent_dirs = program.ensure_parent_dirs, clock.start
    summarise = program._log_summary

    def summary(stats: dict[str, Any]) -> None:
        clock.stop()
        summarise(stats)
        assert stats["ok"] == stats["requests"] == count and not stats["errors"], stats

    program._log_summary = summary
    program.regenerate_responses(
        endpoint=url + "/v1/chat/completions",
        model=str(folder),
        dataset=str(folder / "dataset.jsonl"),
        split=None,
        subset=None,
        limit=None,
        concurrency=at_once,
        outfile=str(folder / "rows.jsonl"),
    )
    assert make_folders and sum(1 for _ in (folder / "rows.jsonl").open()) == count


if __name__ == "__main__":
    name, url, count, at_once, folder = sys.argv[1:]
    clock = Clock()
    if name == "speculators":
        with_speculators(clock, url, int(count), int(at_once), Path(folder))
    else:
        uvloop.run(with_httpx(clock, url, int(count), int(at_once), Path(folder)))
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\n" + json.dumps({"cpu": clock.cpu, "wall": clock.wall, "mib": mib}))
