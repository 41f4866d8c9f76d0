"""Runs over two real servers at once: the embedded llama.cpp of the F32 model, and vLLM in float32 on the CPU.

``scripts/engines/test_engines.sh vllm`` installs vLLM, exports the model and runs this. The server is this module's
own, since it is killed and started again.
"""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftmill.engines import connect
from draftmill.recipe import EngineSpec
from tests.cli.command import command, draftmill, environment, questions, read_jsonl, write_jsonl, write_recipe

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
ENGINES = Path(os.environ.get("DRAFTMILL_ENGINES", ROOT / ".engines"))
SCRIPTS = ROOT / "scripts" / "engines"
START_SECONDS = 300.0
NEAR_TIE = 0.02  # nats: closer than that, rounding decides which of two ids is the likelier


class Server:
    """vLLM under this test's control, always at the same URL."""

    def __init__(self, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        model = ENGINES / "smollm2" / "fp32"
        arguments = [ENGINES / "vllm", model, str(self._port), "--dtype", "float32"]
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [SCRIPTS / "start_vllm.sh", *arguments], stdout=log, stderr=log, start_new_session=True, env=own
            )

    def ready(self) -> None:
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process and self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < until, "vLLM does not get ready"
            time.sleep(0.5)

    def kill(self) -> None:
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return True
        except OSError:
            return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("vllm") / "server.log")
    server.start()
    try:
        server.ready()
        yield server
    finally:
        server.kill()


def recipe(folder: Path, tokenizer_folder: Path, engines: list[Any], prompts: int) -> Path:
    write_jsonl(folder / "chat.jsonl", questions(prompts))
    return write_recipe(
        folder / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=engines,
        sampling={"temperature": 0.0},  # so that every engine owes the same answer
        lanes={"short": {"max_new_tokens": 48}},
        datasets=[{"name": "chat", "source": "chat.jsonl"}],
    )


def embedded(gguf: Path) -> dict[str, Any]:
    return {"kind": "embedded", "gguf": str(gguf), "slots": 2, "context": 512}


def test_both_are_killed_half_way_and_the_run_ends_complete(
    tmp_path: Path, tokenizer_folder: Path, server: Server
) -> None:
    f32 = ENGINES / "smollm2" / "f32.gguf"
    both = [embedded(f32), {"url": server.url, "concurrency": 4}]
    asked = recipe(tmp_path, tokenizer_folder, both, 160)
    out = tmp_path / "run"
    with subprocess.Popen(
        command("run", asked, "--out", out),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            wait(lambda: min(answers(out).values(), default=0) >= 8 and len(answers(out)) == 2, run)
            os.kill(embedded_server(run.pid), signal.SIGKILL)
            server.kill()
            before = answers(out)
            wait(lambda: "lost" in events(out), run)
            wait(lambda: answers(out)["embedded"] >= before["embedded"] + 4, run)
            hold(out, "--pause")  # else the other may have answered everything before a slow machine has it back
            server.start()
            server.ready()
            wait(lambda: "back" in events(out), run)
            hold(out, "--resume")
            assert run.wait(600) == 0, run.stderr and run.stderr.read()
        finally:
            run.kill()
        said = run.stdout.read() if run.stdout else ""
    kinds = events(out)
    assert [kinds.count(kind) for kind in ("weights", "lost", "back", "restarted")] == [1, 1, 1, 1]
    assert not {"unheard", "paused", "suspect"} & set(kinds)
    after = answers(out)
    assert all(after[name] >= before[name] + 4 for name in ("embedded", server.url)), (before, after)
    assert "160 positions = 160 counting + 0 surplus + 0 passed through + 0 error + 0 owed + 0 not needed" in said
    rows = read_jsonl(out / "chat" / "tokenized_data.jsonl")
    assert [row["position"] for row in rows] == list(range(160))
    whole = Counter(line["id"] for line in journal(out))
    assert sorted(whole.values()) == [1] * 160  # every answer stands once
    refuse_other_answers(rows, alone(tmp_path, tokenizer_folder, server), server)


@pytest.mark.parametrize(("kind", "moved"), [("Q4_1", None), ("F32", "0.01")])
def test_other_weights_are_refused(
    tmp_path: Path, tokenizer_folder: Path, small_model: Path, server: Server, kind: str, moved: str | None
) -> None:
    gguf = small_model
    if moved:  # a neighbour of the same model: every weight is off by 1 %
        gguf = tmp_path / "moved.gguf"
        subprocess.run([sys.executable, SCRIPTS / "retype_gguf.py", small_model, gguf, kind, moved], check=True)
    asked = recipe(tmp_path, tokenizer_folder, [embedded(gguf), server.url], 8)
    done = draftmill("run", asked, "--out", tmp_path / "run")
    assert done.returncode == 1
    both = f"(embedded and {server.url}|{server.url} and embedded)"
    said = re.search(rf"{both} do not serve the same weights: they differ by (0\.\d+) nats", done.stderr)
    assert said and 0.07 < float(said[2]) < 0.13, done.stderr
    assert "engine_tolerance" in done.stderr
    assert not (tmp_path / "run" / "chat" / "raw_responses.jsonl").exists()


def alone(folder: Path, tokenizer_folder: Path, server: Server) -> list[dict[str, Any]]:
    """The first rows as one engine gives them."""
    (folder / "alone").mkdir()
    asked = recipe(folder / "alone", tokenizer_folder, [server.url], 160)
    done = draftmill("run", asked, "--out", folder / "alone" / "run", "--limit", "60")
    assert done.returncode == 0, done.stderr
    assert "weights" not in events(folder / "alone" / "run")
    return read_jsonl(folder / "alone" / "run" / "chat" / "tokenized_data.jsonl")


def refuse_other_answers(rows: list[dict[str, Any]], others: list[dict[str, Any]], server: Server) -> None:
    """Greedy answers to the same prompt are equal, but for two ids that are as good as equally likely."""
    assert len(others) == 60
    parted = []
    for row, other in zip(rows, others, strict=False):
        assert row["id"] == other["id"]
        ours, theirs = row["input_ids"], other["input_ids"]
        if ours != theirs:
            at = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
            assert at >= row["prompt_tokens"]
            parted.append((ours[: at + 1], theirs[: at + 1]))
    print(f"{len(parted)} of 60 greedy answers part at a near-tie")
    assert len(parted) <= 6

    async def gaps() -> list[float]:
        engine = await connect(EngineSpec(url=server.url))
        try:
            scores = [[(await engine.score(ids, len(ids) - 1)).logprobs[0] for ids in pair] for pair in parted]
        finally:
            await engine.close()
        return [abs(a - b) for a, b in scores]

    assert all(gap < NEAR_TIE for gap in asyncio.run(gaps()))


def wait(until: Callable[[], bool], run: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + START_SECONDS
    while not until():
        assert run.poll() is None, run.stderr and run.stderr.read()
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.1)


def hold(out: Path, how: str) -> None:
    done = draftmill("control", out, how)
    assert done.returncode == 0, done.stderr


def embedded_server(parent: int) -> int:
    """The process of a run's embedded server."""
    children = {
        int(pid) for file in Path(f"/proc/{parent}/task").glob("*/children") for pid in file.read_text().split()
    }
    (found,) = (pid for pid in children if b"embedded_server" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return found


def journal(out: Path) -> list[dict[str, Any]]:
    """Whole answers; the last line may be on its way still."""
    path = out / "chat" / "raw_responses.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [line for line in map(json.loads, lines) if not line.get("partial")]


def answers(out: Path) -> Counter[str]:
    return Counter(line["engine"] for line in journal(out))


def events(out: Path) -> list[str]:
    path = out / "events.jsonl"
    return [json.loads(line)["kind"] for line in path.read_text().split("\n")[:-1]] if path.exists() else []
