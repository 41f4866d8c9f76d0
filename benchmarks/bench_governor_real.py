"""The governor against the best fixed concurrency on real servers: the embedded engine, and vLLM on the CPU.

A run of one dataset, whose answers vary in length, is begun afresh for each concurrency and stopped after a minute or
two; counted is what the server itself generated once the run had warmed up. The whole sweep is made once, then `auto`,
the best fixed number and 4 in turn, so that noise shows. Nothing else should use the machine meanwhile: "elsewhere" is
the share of its cores that did.

Usage: bench_governor_real.py [embedded | vllm | URL ...]   (embedded, and vllm where it is installed)
       [--caps 1,4,8,16] [--rounds 3] [--warm 20] [--seconds 60] [--gguf FILE] [--slots 16]

`vllm` starts a server of .engines/smollm2/fp32, which `make engines` installs and exports (bfloat16 is a dozen times
slower on a CPU that has no instructions for it); a URL is a server that serves the small model already.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import nan
from pathlib import Path
from typing import Any

from draftmill import recipe as recipes
from draftmill.engines import metrics
from draftmill.engines.llamacpp import LlamaCpp
from draftmill.engines.small_model import small_model
from draftmill.engines.vllm import VLLM
from draftmill.errors import EngineError
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.mill.observer import Observer
from draftmill.mill.run import open_run
from draftmill.render import tokenizer

ROOT = Path(__file__).parent.parent
CAPS = {"embedded": (1, 4, 8, 16), "vllm": (4, 8, 16, 32)}
LIMIT = 400  # tokens: some answers stop by themselves after twenty, some never
START_SECONDS = 300.0


class Watch(Observer):
    """Lets a run warm up, measures it, and stops it."""

    def __init__(self, warm: float, seconds: float) -> None:
        self.warm = warm
        self.seconds = seconds
        self.rate = 0.0
        self.elsewhere = 0.0
        self.caps: list[int] = []
        self.told: list[str] = []
        self._task: asyncio.Task[None] | None = None

    def note(self, kind: str, subject: str, message: str) -> None:
        if kind == "cap":
            self.told.append(message)

    def milling(self, loop: Loop) -> None:
        self._task = asyncio.create_task(self._measure(loop))

    async def _measure(self, loop: Loop) -> None:
        (seat,) = loop.seats
        try:
            await asyncio.sleep(self.warm)
            before, began, busy = await generated(seat.engine), time.perf_counter(), Busy()
            for _ in range(10):
                await asyncio.sleep(self.seconds / 10)
                self.caps.append(seat.cap)
            self.rate = (await generated(seat.engine) - before) / (time.perf_counter() - began)
            self.elsewhere = busy.elsewhere()
        except EngineError as error:
            print(f"  not measured: {error.message}")
        loop.stop(Ending.INTERRUPTED)


class Busy:
    """What the cores do from now on, and how much of it is not for this process and its children."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._all, self._ours = self._spent()

    def elsewhere(self) -> float:
        """A share of all cores; nan where the system does not tell."""
        everything, ours = self._spent()
        ticks = (time.perf_counter() - self._began) * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
        return (everything - self._all - (ours - self._ours)) / ticks

    def _spent(self) -> tuple[float, float]:
        """Ticks since the start of the system, of everybody and of ours."""
        try:
            user, nice, system, _, _, irq, soft, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
        except OSError:
            return nan, nan
        parents, spent = {}, {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = file.read_text().rpartition(")")[2].split()
                parents[int(file.parent.name)] = int(fields[1])
                spent[int(file.parent.name)] = int(fields[11]) + int(fields[12])
        ours = {os.getpid()}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        return user + nice + system + irq + soft, sum(spent.get(pid, 0) for pid in ours)


async def generated(engine: Any) -> float:
    """Tokens that the server has generated since its start, those of unfinished answers too."""
    counted = metrics.totals(await engine._http.get_text("/metrics"))
    if isinstance(engine, VLLM):
        return counted["vllm:generation_tokens_total"]
    assert isinstance(engine, LlamaCpp)
    busy = [slot for slot in await engine._http.get("/slots", list[dict[str, Any]]) if slot["is_processing"]]
    return counted["llamacpp:tokens_predicted_total"] + sum(slot["next_token"][0]["n_decoded"] for slot in busy)


def measure(folder: Path, engine: dict[str, Any], concurrency: int | str, warm: float, seconds: float) -> Watch:
    """One start of a fresh run."""
    things = ["tea", "a glacier", "rust", "a violin", "fog", "chess", "bread", "a comet", "moss", "the sea"]
    asked = [f"Explain {things[n % 10]} to a child, number {n}." for n in range(4000)]
    (folder / "backlog.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in asked))
    recipe = {
        "model": str(folder / "tokenizer"),
        "engines": [engine | {"concurrency": concurrency}],
        "lanes": {"short": {"max_new_tokens": LIMIT}},
        "datasets": [{"name": "backlog", "source": "backlog.jsonl"}],
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(recipe))
    watch = Watch(warm, seconds)
    out = Path(tempfile.mkdtemp(dir=folder))
    with open_run(recipes.load(path), folder, out, observer=watch) as run:
        run.prepare()
        result = run.mill(Limits(drain=0.0))
    assert result.start.ending is Ending.INTERRUPTED, "the backlog was too small"
    return watch


def compare(name: str, folder: Path, engine: dict[str, Any], caps: list[int], options: argparse.Namespace) -> None:
    print(name)
    rates: dict[int | str, list[float]] = {}

    def once(concurrency: int | str) -> None:
        seen = measure(folder, engine, concurrency, options.warm, options.seconds)
        rates.setdefault(concurrency, []).append(seen.rate)
        cap = f"  cap {min(seen.caps)}-{max(seen.caps)}" if concurrency == "auto" else ""
        print(f"  {concurrency:>8} {seen.rate:6.1f} tok/s  elsewhere {seen.elsewhere:4.0%}{cap}", flush=True)
        for message in seen.told:
            print(f"           {message}", flush=True)

    for concurrency in [*caps, "auto"]:
        once(concurrency)
    best = max(caps, key=lambda cap: rates[cap][0])
    for _ in range(options.rounds - 1):
        for concurrency in dict.fromkeys(["auto", best, 4]):
            once(concurrency)
    mean = {concurrency: sum(seen) / len(seen) for concurrency, seen in rates.items()}
    best = max(caps, key=lambda cap: mean[cap])
    print(
        f"  auto is {mean['auto'] / mean[best]:.1%} of the best ({best}: {mean[best]:.1f} tok/s); "
        f"a fixed 4: {mean[4] / mean[best]:.0%}"
    )


@contextmanager
def vllm_server(log: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script, engines = ROOT / "scripts/engines/start_vllm.sh", ROOT / ".engines"
    command = [script, engines / "vllm", engines / "smollm2/fp32", str(port), "--dtype", "float32"]
    url = f"http://127.0.0.1:{port}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("wb") as file:
        server = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True, env=environment)
        try:
            until = time.monotonic() + START_SECONDS
            while not answers(url):
                if server.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"vLLM did not start:\n{log.read_text()[-2000:]}")
                time.sleep(1)
            yield url
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):
            return True
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    installed = (ROOT / ".engines/vllm/installed").exists()
    parser.add_argument("servers", nargs="*", default=["embedded", *["vllm"] * installed])
    parser.add_argument("--caps", type=lambda text: [int(cap) for cap in text.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--gguf", type=Path, default=None)
    parser.add_argument("--slots", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tokenizer.load(str(small_model())).save(folder / "tokenizer")
        for server in options.servers:
            if server == "embedded":
                gguf = str((options.gguf or small_model()).resolve())
                engine = {"kind": "embedded", "gguf": gguf, "slots": options.slots, "context": 1024}
                compare(f"embedded, {Path(gguf).name}", folder, engine, options.caps or [*CAPS["embedded"]], options)
            elif server == "vllm":
                with vllm_server(folder / "vllm.log") as url:
                    compare("vLLM, float32", folder, {"url": url}, options.caps or [*CAPS["vllm"]], options)
            else:
                compare(server, folder, {"url": server}, options.caps or [*CAPS["vllm"]], options)


if __name__ == "__main__":
    main()
