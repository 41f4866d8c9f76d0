"""Real llama.cpp servers under every death that can be had without a GPU: the reason, what follows, and no orphan."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from draftmill.capacity.launch import Launch
from draftmill.engines import connect
from draftmill.errors import LockedError, ServerError
from draftmill.journal.folder import ServeFolder
from draftmill.recipe import EngineSpec
from draftmill.serve.beside import beside
from draftmill.serve.fleet import Fleet, launched
from draftmill.serve.replica import State, free_port
from tests.engines.contract import ask
from tests.serve.processes import until, with_words

pytestmark = pytest.mark.embedded

SERVER = (sys.executable, "-m", "draftmill.engines.llama_server")


def launch(gguf: Path, **values: Any) -> Launch:
    given = {"kind": "llamacpp", "model": str(gguf), "context": 256, "slots": 2, "on_gpu": False, "command": SERVER}
    return Launch(**(given | {"ports": (free_port(),), "options": ("-t", "1")} | values))


def events(folder: Path) -> list[tuple[str, str]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [(line["kind"], line["message"]) for line in map(json.loads, lines)]


def kinds(folder: Path) -> list[str]:
    return [kind for kind, _ in events(folder)]


def left(launch: Launch) -> list[int]:
    return [pid for port in launch.ports for pid in with_words("--port", str(port))]


def serving(launch: Launch, folder: Path, use: Callable[[Fleet], Awaitable[None]], **more: Any) -> None:
    async def body() -> None:
        fleet = Fleet(launch, ServeFolder(folder), lambda *_: None, **more)
        await fleet.start()
        try:
            await use(fleet)
        finally:
            await fleet.stop()

    asyncio.run(body())
    assert left(launch) == []


async def state(fleet: Fleet, wanted: State, number: int = 0) -> None:
    await asyncio.to_thread(until, lambda: fleet.replicas[number].state is wanted)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_server_that_is_killed_comes_back_at_its_port(small_model: Path, tmp_path: Path, number: int) -> None:
    async def use(fleet: Fleet) -> None:
        engine = await connect(EngineSpec(kind="llamacpp", url=fleet.urls[0]))
        first = await engine.generate(ask())
        (pid,) = left(planned)
        os.kill(pid, number)
        await state(fleet, State.DOWN)
        assert fleet.coming and fleet.error is None
        await state(fleet, State.READY)
        assert (await engine.generate(ask())).output_ids == first.output_ids
        await engine.close()
        assert left(planned) != [pid]

    planned = launch(small_model)
    serving(planned, tmp_path, use, predicted=512)
    told = events(tmp_path)
    assert [kind for kind, _ in told] == [
        *("starting", "ready", "KV cache", "died", "again", "starting", "ready", "KV cache", "ended")
    ]
    assert told[2][1] == "512 tokens: just as planned"
    assert told[3][1] == f"signal: ended by {signal.Signals(number).name}"
    assert told[4][1] == "in 1 s, as it was"
    assert [json.loads(line)["tokens"] for line in (tmp_path / "starts.jsonl").read_text().splitlines()] == [512, 512]


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_a_death_of_memory_is_followed_by_less(small_model: Path, tmp_path: Path) -> None:
    """2,880 MB of KV cache do not fit under the limit, beside the address space of llama.cpp's threads; half does:
    with one arena of malloc for all threads, since how many they would make is chance."""
    limited = ("env", "MALLOC_ARENA_MAX=1", "prlimit", "--as=7000000000", *SERVER)
    planned = launch(small_model, context=8192, slots=16, command=limited)

    async def use(fleet: Fleet) -> None:
        deaths = [message.partition(":")[0] for kind, message in events(tmp_path) if kind == "died"]
        assert deaths == ["host_memory"] and fleet.replicas[0].launch.slots == 8

    serving(planned, tmp_path, use)
    told = dict(events(tmp_path))
    assert told["died"].startswith("host_memory: ") and "insufficient memory" in told["died"]
    assert told["again"] == "in 1 s, with slots 16 → 8"
    assert told["KV cache"] == "65,536 tokens"


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_memory_that_never_suffices_ends_it(small_model: Path, tmp_path: Path) -> None:
    planned = launch(small_model, context=256, slots=2, command=("prlimit", "--as=1500000000", *SERVER))
    with pytest.raises(ServerError, match="server 0: host_memory: ") as caught:
        serving(planned, tmp_path, lambda fleet: asyncio.sleep(0))
    assert "give it more memory" in caught.value.advice
    assert kinds(tmp_path) == ["starting", "died", "again", "starting", "died", "given up"]
    assert left(planned) == []


@pytest.mark.parametrize(
    ("values", "reason", "evidence"),
    [
        ({"model": "nowhere.gguf"}, "model", "failed to open GGUF file 'nowhere.gguf'"),
        ({"options": ("--no-such-flag",)}, "flag", "unrecognized arguments: --no-such-flag"),
        ({"command": ("no-such-server",)}, "command", "no-such-server: No such file or directory"),
    ],
)
def test_what_only_a_person_can_mend_ends_it_at_once(
    small_model: Path, tmp_path: Path, values: dict[str, Any], reason: str, evidence: str
) -> None:
    planned = launch(small_model, **values)
    with pytest.raises(ServerError, match=f"server 0: {reason}: .*{evidence}"):
        serving(planned, tmp_path, lambda fleet: asyncio.sleep(0))
    assert kinds(tmp_path)[-2:] == ["died", "given up"] and kinds(tmp_path).count("starting") <= 1
    assert left(planned) == []


def test_a_port_that_is_taken_ends_it_before_anything_is_started(small_model: Path, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        planned = launch(small_model, ports=(other.getsockname()[1],))
        with pytest.raises(ServerError, match=r"server 0: port: port \d+ of 127.0.0.1: Address already in use"):
            serving(planned, tmp_path, lambda fleet: asyncio.sleep(0))
    assert kinds(tmp_path) == ["died", "given up"]


def test_a_server_that_says_nothing_and_does_nothing_is_stuck(tmp_path: Path) -> None:
    silent = (sys.executable, "-c", "import time; time.sleep(600)")
    planned = launch(tmp_path, command=silent)

    async def body() -> None:
        fleet = Fleet(planned, ServeFolder(tmp_path), lambda *_: None, stall=0.5)
        task = asyncio.create_task(fleet.start())
        await asyncio.to_thread(until, lambda: (tmp_path / "events.jsonl").exists() and "again" in kinds(tmp_path))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(body())
    assert dict(events(tmp_path))["died"].startswith("stuck: nothing new in its log for 0 s")
    assert left(planned) == []


def test_replicas_live_each_for_itself(small_model: Path, tmp_path: Path) -> None:
    planned = launch(small_model, dp=2, ports=(free_port(), free_port()))

    async def use(fleet: Fleet) -> None:
        assert fleet.urls == [f"http://127.0.0.1:{port}" for port in planned.ports]
        (pid,) = with_words("--port", str(planned.ports[1]))
        os.kill(pid, signal.SIGKILL)
        await state(fleet, State.DOWN, 1)
        assert fleet.replicas[0].state is State.READY and fleet.coming
        await state(fleet, State.READY, 1)

    serving(planned, tmp_path, use)
    died = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["subject"] for line in died if line["kind"] == "died"] == ["server 1"]


def test_a_listener_that_is_gone_takes_no_server_down(small_model: Path, tmp_path: Path) -> None:
    """What rich does where the terminal or the pipe behind it has gone."""

    def gone(*_: str) -> None:
        raise SystemExit(1)

    planned = launch(small_model)
    with beside(lambda: Fleet(planned, ServeFolder(tmp_path), gone)) as kept:
        assert kept.urls == [planned.url()] and not kept.coming() and kept.lost() is None
        assert len(left(planned)) == 1
    assert kinds(tmp_path)[-1] == "ended" and left(planned) == []


def test_one_context_one_server(small_model: Path, tmp_path: Path) -> None:
    planned = launch(small_model)

    async def body() -> None:
        async with launched(planned, tmp_path) as url:
            assert url == planned.url()
            with pytest.raises(LockedError):
                async with launched(planned, tmp_path):
                    pass
            assert len(left(planned)) == 1

    asyncio.run(body())
    assert left(planned) == []
