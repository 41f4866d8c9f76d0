"""Real vLLM and SGLang servers on the CPU, launched and kept alive: every death that can be had without a GPU.

``scripts/engines/test_engines.sh`` runs this; the servers are this module's own, since they are killed.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from draftmill.capacity.launch import Launch
from draftmill.errors import ServerError
from draftmill.journal.folder import ServeFolder
from draftmill.serve.fleet import Fleet
from draftmill.serve.replica import State, free_port
from tests.cli.command import command, environment, questions, read_jsonl, write_jsonl, write_recipe
from tests.serve.processes import alive, below, until, with_words

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
ENGINES = Path(os.environ.get("DRAFTMILL_ENGINES", ROOT / ".engines")).absolute()
SHIM = ROOT / "scripts" / "engines" / "sglang_shim"
MODEL = ENGINES / "smollm2" / "bf16"
GIB = float(2**30)
START_SECONDS = 900.0  # of a busy machine

VLLM = (str(ENGINES / "vllm" / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server")
VLLM_OPTIONS = ("--max-num-seqs", "8", "--enforce-eager")
VLLM_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONPATH": ""}
SGLANG = (str(ENGINES / "sglang" / "bin" / "python"), str(SHIM / "launch.py"))
SGLANG_OPTIONS = ("--device", "cpu", "--attention-backend", "torch_native", "--disable-cuda-graph")
SGLANG_OPTIONS += ("--disable-overlap-schedule", "--max-total-tokens", "16384")
SGLANG_ENVIRONMENT = {"SGLANG_USE_CPU_ENGINE": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(SHIM)}


def launch(kind: str, **values: Any) -> Launch:
    own = {
        "vllm": {"command": VLLM, "options": VLLM_OPTIONS, "environment": VLLM_ENVIRONMENT, "kv_space": GIB},
        "sglang": {"command": SGLANG, "options": SGLANG_OPTIONS, "environment": SGLANG_ENVIRONMENT, "fraction": 0.3},
    }[kind]
    common = {"kind": kind, "model": str(MODEL), "context": 1024, "on_gpu": False, "ports": (free_port(),)}
    return Launch(**(common | own | values))


def events(folder: Path) -> list[tuple[str, str]]:
    path = folder / "events.jsonl"
    return [(line["kind"], line["message"]) for line in read_jsonl(path)] if path.exists() else []


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def server(planned: Launch) -> int:
    """The process that listens, and leads all others of the server."""
    found = with_words("--port", str(planned.ports[0]))
    return next(pid for pid in found if pid not in {child for other in found for child in below(other)})


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_server_that_crashes_comes_back_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    planned = launch(kind)

    async def body() -> None:
        fleet = Fleet(planned, ServeFolder(tmp_path), print)
        await fleet.start()
        try:
            before = [leader := server(planned), *below(leader)]
            assert len(before) >= 3  # it has workers in processes of their own
            os.kill(leader, signal.SIGSEGV)
            await asyncio.to_thread(until, lambda: fleet.replicas[0].state is State.DOWN, 60)
            assert not any(map(alive, before))
            await asyncio.to_thread(until, lambda: fleet.replicas[0].state is State.READY, START_SECONDS)
            before += [leader := server(planned), *below(leader)]
        finally:
            await fleet.stop()
        assert not any(map(alive, before))

    asyncio.run(body())
    told = events(tmp_path)
    assert [kind for kind, _ in told] == [
        *("starting", "ready", "KV cache", "died", "again", "starting", "ready", "KV cache", "ended")
    ]
    assert dict(told)["died"] == "signal: ended by SIGSEGV"
    starts = read_jsonl(tmp_path / "starts.jsonl")
    assert len(starts) == 2 and starts[0]["tokens"] > 10_000


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_vllm_under_a_limit_of_memory_gets_less(tmp_path: Path) -> None:
    """8 GiB of KV cache do not fit under the limit; what it is backed off to does."""
    planned = launch("vllm", command=("prlimit", f"--as={int(10 * GIB)}", *VLLM), kv_space=8 * GIB)

    async def body() -> None:
        fleet = Fleet(planned, ServeFolder(tmp_path), print)
        await fleet.start()
        assert fleet.replicas[0].launch.kv_space in (6 * GIB, 4 * GIB)
        everything = [leader := server(planned), *below(leader)]
        await fleet.stop()
        assert not any(map(alive, everything))

    asyncio.run(body())
    told = events(tmp_path)
    assert ("again", "in 1 s, with kv_space 8.0 → 6.0 GiB") in told
    assert all(message.startswith("host_memory: ") for kind, message in told if kind == "died")


def test_vllm_without_its_model_is_given_up_at_once(tmp_path: Path) -> None:
    planned = launch("vllm", model=str(tmp_path / "nowhere"))
    with pytest.raises(ServerError, match=r"server 0: model: .*nowhere"):
        asyncio.run(Fleet(planned, ServeFolder(tmp_path / "serve"), print).start())
    assert [kind for kind, _ in events(tmp_path / "serve")] == ["starting", "died", "given up"]


def test_a_run_whose_vllm_is_killed_half_way_has_every_row_once(tmp_path: Path) -> None:
    port = free_port()
    write_jsonl(tmp_path / "chat.jsonl", questions(60))
    recipe = write_recipe(
        tmp_path / "r.yaml",
        model=str(MODEL),
        engines=[{"url": f"http://127.0.0.1:{port}", "concurrency": 4}],
        lanes={"short": {"max_new_tokens": 32}},
        datasets=[{"name": "chat", "source": "chat.jsonl"}],
        plan={
            "engine": "vllm",
            "kv_space": "1GiB",
            "context": 1024,
            "command": list(VLLM),
            "options": list(VLLM_OPTIONS),
            "environment": VLLM_ENVIRONMENT,
        },
    )
    run = tmp_path / "run"
    journal = run / "chat" / "raw_responses.jsonl"
    words = command("run", recipe, "--out", run, "--serve")
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: process.poll() is not None or lines(journal) > 12, START_SECONDS)
            os.kill(server(Launch(kind="vllm", model="", context=1, ports=(port,))), signal.SIGKILL)
            page, said = process.communicate(timeout=START_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert "60 positions = 60 counting + 0 surplus + 0 passed through + 0 error + 0 owed + 0 not needed" in page
    assert [row["position"] for row in read_jsonl(run / "chat" / "tokenized_data.jsonl")] == list(range(60))
    whole = Counter(line["id"] for line in map(json.loads, journal.read_text().splitlines()) if not line.get("partial"))
    assert sorted(whole.values()) == [1] * 60
    assert ("died", "signal: ended by SIGKILL") in events(run / "serve")
    predicted = [(line["tokens"], line["predicted"]) for line in read_jsonl(run / "serve" / "starts.jsonl")]
    assert all(tokens == pytest.approx(plan, rel=0.01) for tokens, plan in predicted)
    assert with_words("--port", str(port)) == []
