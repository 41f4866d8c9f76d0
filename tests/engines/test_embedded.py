"""The embedded engine's process: how it starts, dies, comes back and ends with its parent."""

import asyncio
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from draftmill.engines import connect
from draftmill.engines.embedded import Embedded
from draftmill.engines.protocol import Identity
from draftmill.errors import SetupFault, TransportFault
from draftmill.recipe import EngineSpec
from tests.engines.contract import ANSWER, PROMPT, ask

embedded = pytest.mark.embedded


def running(small_model: Path, use: Callable[[Embedded], Awaitable[None]], log: Path | None = None) -> None:
    async def body() -> None:
        engine = await Embedded.start(small_model, slots=2, context=256, log=log)
        try:
            await use(engine)
        finally:
            await engine.close()

    asyncio.run(body())


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    return False


@embedded
def test_a_server_that_is_killed_is_noticed_and_can_be_restarted(small_model: Path) -> None:
    async def use(engine: Embedded) -> None:
        first = await engine.generate(ask())
        key, pid = engine.key, engine.pid
        assert pid is not None
        waiting = asyncio.ensure_future(engine.generate(ask(limit=200)))
        await asyncio.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(TransportFault, match=r"process died \(exit code -9\)"):
            await asyncio.wait_for(waiting, 10)
        with pytest.raises(TransportFault):
            await engine.generate(ask())
        with pytest.raises(TransportFault):
            await engine.load()
        await engine.restart()
        assert engine.pid != pid and engine.key != key
        assert (await engine.generate(ask())).output_ids == first.output_ids

    running(small_model, use)


@embedded
def test_asking_what_it_is_brings_a_dead_one_back(small_model: Path) -> None:
    async def use(engine: Embedded) -> None:
        before = await engine.identify()
        assert engine._process is not None
        engine._process.kill()
        await engine._process.wait()
        assert await engine.identify() == before

    running(small_model, use)


def kill(engine: Embedded) -> Awaitable[int]:
    assert engine._process is not None
    engine._process.kill()
    return engine._process.wait()


@embedded
def test_a_revival_is_told(small_model: Path) -> None:
    told: list[str] = []

    async def use() -> None:
        spec = EngineSpec(kind="embedded", slots=1, context=256)
        engine = await connect(spec, gguf=small_model, tell=told.append)
        try:
            await engine.identify()
            assert told == []
            assert isinstance(engine, Embedded)
            await kill(engine)
            await engine.identify()
            assert told == ["its process had ended (exit code -9) and was started again"]
        finally:
            await engine.close()

    asyncio.run(use())


@embedded
def test_a_start_that_failed_is_tried_again(small_model: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.symlink_to(small_model)

    async def use(engine: Embedded) -> None:
        await kill(engine)
        model.unlink()
        for _ in range(2):
            with pytest.raises(SetupFault, match="cannot serve"):
                await engine.identify()
        model.symlink_to(small_model)
        assert (await engine.identify()).slots == 2

    running(model, use)


@embedded
def test_one_that_dies_again_and_again_is_given_up(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftmill.engines.embedded._MOST_DEATHS", 2)

    async def use(engine: Embedded) -> None:
        for _ in range(2):
            await kill(engine)
            await engine.identify()
        await engine.generate(ask())  # an answer between: the count begins anew
        for _ in range(2):
            await kill(engine)
            await engine.identify()
        await kill(engine)
        with pytest.raises(SetupFault, match=r"died 3 times without one answer .* exit code -9"):
            await engine.identify()

    running(small_model, use)


@embedded
def test_one_that_was_closed_stays_closed(small_model: Path) -> None:
    async def use(engine: Embedded) -> None:
        await engine.close()
        with pytest.raises(TransportFault):
            await engine.identify()
        assert engine.pid is None

    running(small_model, use)


@embedded
def test_context_is_per_slot(small_model: Path) -> None:
    async def use(engine: Embedded) -> None:
        identity = await engine.identify()
        assert (identity.name, identity.slots, identity.context, identity.kv_tokens) == ("embedded", 2, 256, 512)

    running(small_model, use)


@embedded
def test_a_context_that_the_server_rounds_up_is_kept_to(small_model: Path) -> None:
    async def body() -> Identity:
        engine = await Embedded.start(small_model, slots=2, context=100)
        try:
            return await engine.identify()
        finally:
            await engine.close()

    identity = asyncio.run(body())
    assert (identity.context, identity.max_prompt) == (100, 99)


@embedded
def test_closing_ends_the_process_and_may_be_done_twice(small_model: Path, tmp_path: Path) -> None:
    async def use(engine: Embedded) -> None:
        pid = engine.pid
        assert pid is not None and alive(pid)
        await engine.close()
        assert not alive(pid)
        await engine.close()

    running(small_model, use, tmp_path / "log")
    assert b"model loaded" in (tmp_path / "log").read_bytes()


@embedded
def test_the_key_stands_neither_in_arguments_nor_environment_nor_log(small_model: Path, tmp_path: Path) -> None:
    async def use(engine: Embedded) -> None:
        process = Path(f"/proc/{engine.pid}")
        if not process.exists():
            pytest.skip("no /proc on this system")
        seen = [(process / name).read_bytes() for name in ("cmdline", "environ")] + [(tmp_path / "log").read_bytes()]
        assert all(engine.key.encode() not in text for text in seen)
        assert engine.key not in repr(vars(engine))

    running(small_model, use, tmp_path / "log")


@embedded
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_parent(small_model: Path, how: signal.Signals) -> None:
    program = (
        "import asyncio, signal, sys\n"
        "from pathlib import Path\n"
        "from draftmill.engines.embedded import Embedded\n"
        "async def main():\n"
        "    engine = await Embedded.start(Path(sys.argv[1]), slots=1, context=256)\n"
        "    print(engine.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background starts without one
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(small_model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(how)
        parent.wait(10)
    until = time.monotonic() + 10
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(pid)


@embedded
@pytest.mark.parametrize("log", [True, False])
def test_a_file_that_is_no_model(tmp_path: Path, log: bool) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\x00" * 100)
    with pytest.raises(SetupFault) as caught:
        asyncio.run(Embedded.start(broken, log=tmp_path / "log" if log else None))
    assert "broken.gguf" in caught.value.message and "failed to load" in caught.value.message


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SetupFault, match=r"missing\.gguf|pip install|not installed"):
        asyncio.run(connect(EngineSpec(kind="embedded"), gguf=tmp_path / "missing.gguf"))


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupFault) as caught:
        asyncio.run(Embedded.start(tmp_path / "any.gguf"))
    assert "draftmill[embedded]" in caught.value.advice


@embedded
def test_connect_starts_it_as_the_recipe_says(small_model: Path) -> None:
    async def use() -> None:
        spec = EngineSpec(kind="embedded", slots=3, context=256, threads=1, prompt_cache=False)
        engine = await connect(spec, gguf=small_model)
        try:
            assert (await engine.identify()).slots == 3
            assert (await engine.generate(ask(limit=3))).cached_tokens == 0
            assert (await engine.generate(ask(limit=3))).cached_tokens == 0
        finally:
            await engine.close()

    asyncio.run(use())


@embedded
def test_the_type_of_the_kv_cache(small_model: Path) -> None:
    """Told, taken, and another one gives other probabilities."""

    async def use() -> None:
        said = {}
        for kv in ("f16", "q8_0", "q4_0"):
            spec = EngineSpec.model_validate({"kind": "embedded", "slots": 1, "context": 256, "threads": 1, "kv": kv})
            engine = await connect(spec, gguf=small_model)
            try:
                assert (await engine.identify()).kv_dtype == kv
                said[kv] = (await engine.score([*PROMPT, *ANSWER[:4]], len(PROMPT))).logprobs
            finally:
                await engine.close()
        apart = {kv: max(abs(a - b) for a, b in zip(said["f16"], said[kv], strict=True)) for kv in ("q8_0", "q4_0")}
        assert 0 < apart["q8_0"] < apart["q4_0"] < 2, apart

    asyncio.run(use())
