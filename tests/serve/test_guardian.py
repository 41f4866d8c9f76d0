"""A guardian holds its server: however anything ends, nothing of it is left."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from draftmill.capacity.launch import Invocation
from draftmill.errors import ServerError
from draftmill.serve.child import Child
from draftmill.serve.guardian import Begun, Order, Over
from tests.serve.processes import alive, below, until

# a server that leaves a child in its group and one in a session of its own, both deaf to SIGTERM, and tells their pids
SERVER = textwrap.dedent(
    """
    import os, signal, subprocess, sys, time
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    children = []
    for own in (False, True):
        words = [sys.executable, "-c", deaf]
        children.append(subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=own))
        children[-1].stdout.readline()
    print(*(child.pid for child in children), flush=True)
    time.sleep(600)
    """
)  # fmt: skip
WORDS = (sys.executable, "-c", SERVER)


def pids(log: Path) -> list[int]:
    """The server's children, once it has told them."""
    until(lambda: log.exists() and log.read_text().endswith("\n"))
    return list(map(int, log.read_text().split()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, None])
def test_nothing_outlives_a_server(tmp_path: Path, number: int | None) -> None:
    log = tmp_path / "log"

    async def body() -> tuple[Over, int]:
        child = await Child.start(Invocation(WORDS), log, grace=0.2)
        await asyncio.to_thread(pids, log)
        if number is None:
            return await child.stop(), child.pid
        os.kill(child.pid, number)
        return await child.over, child.pid

    over, server = asyncio.run(body())
    assert over == Over(-(number or signal.SIGTERM))
    assert not any(map(alive, [server, *pids(log)]))


# a guardian whose signals nobody hears, as those to a server that hangs in a driver
DEAF = textwrap.dedent(
    """
    import os
    from draftmill.serve import guardian
    guardian._STUCK = guardian._ORPHANS = 0.1
    os.kill = os.killpg = lambda *_: None
    guardian.main()
    """
)


def test_a_server_that_no_signal_ends_is_told_and_not_waited_for() -> None:
    words = (sys.executable, "-c", "import time; time.sleep(600)")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", DEAF], **pipes) as guardian:  # type: ignore[call-overload]
        guardian.stdin.write(msgspec.json.encode(Order(words, os.devnull, grace=0.1)) + b"\n")
        guardian.stdin.flush()
        begun = msgspec.json.decode(guardian.stdout.readline(), type=Begun)
        said, _ = guardian.communicate(timeout=30)  # closes its stdin
    assert msgspec.json.decode(said, type=Over) == Over(-signal.SIGKILL, (begun.pid,))
    until(lambda: not alive(begun.pid))  # the kernel's signal came through: this one was not really stuck


# what draftmill does around a server, as a process that can be killed
OWNER = textwrap.dedent(
    """
    import asyncio, signal, sys
    from pathlib import Path
    from draftmill.capacity.launch import Invocation
    from draftmill.serve.child import Child

    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored

    async def main():
        child = await Child.start(Invocation(tuple(sys.argv[2:])), Path(sys.argv[1]), grace=0.2)
        print(child.pid, flush=True)
        await child.over
        print("over", flush=True)

    asyncio.run(main())
    """
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_nothing_outlives_draftmill(tmp_path: Path, number: int) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", OWNER, log, *WORDS], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        server = int(owner.stdout.readline())
        everything = [*pids(log), *below(owner.pid)]
        assert server in everything
        owner.send_signal(number)
        owner.wait()
    until(lambda: not any(map(alive, everything)))


def test_nothing_outlives_a_guardian_that_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = (sys.executable, "-c", "import time; print(flush=True); time.sleep(600)")
    with subprocess.Popen([sys.executable, "-c", OWNER, log, *words], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        server = int(owner.stdout.readline())
        (guardian,) = set(below(owner.pid)) - {server}
        os.kill(guardian, signal.SIGKILL)
        assert owner.stdout.readline() == "over\n"
    until(lambda: not alive(server))


def test_the_server_gets_its_environment_and_its_output_is_appended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")

    async def body() -> Over:
        words = (sys.executable, "-c", "import os, sys; print(os.environ['A'], sys.stdin.read()); sys.exit(3)")
        return await (await Child.start(Invocation(words, {"A": "b"}), log)).over

    assert asyncio.run(body()) == Over(3)
    assert log.read_text() == "before\nb \n"


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no-such-server: No such file or directory"):
        asyncio.run(Child.start(Invocation(("no-such-server",)), tmp_path / "log"))
