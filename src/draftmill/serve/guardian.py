"""The process that holds one server: ``python -m draftmill.serve.guardian``.

It reads an ``Order`` as one JSON line on stdin, starts the server as the leader of a session of its own, and tells what
becomes of it as JSON lines on stdout: ``Begun`` or ``Failed``, then ``Over``. The server is ended when stdin closes,
which the kernel sees to however draftmill ends, ``kill -9`` included. Nothing of the server outlives the guardian: as a
*subreaper* it becomes the parent of every descendant whose own parent died, so those are found that made sessions of
their own. Where the guardian itself is killed, the kernel kills the server (``PR_SET_PDEATHSIG``).

Secrets come in the order's environment, never as an argument.
"""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

_PDEATHSIG, _SUBREAPER = 1, 36  # <linux/prctl.h>
_LINUX = sys.platform == "linux"
_LOOK = 0.05  # seconds between two looks at what is still there
_ORPHANS = 3.0  # seconds that descendants of a dead server get to go by themselves
_STUCK = 30.0  # seconds after SIGKILL after which a process is told of instead of waited for


class Order(msgspec.Struct, frozen=True):
    """``environment`` is laid over our own; ``log`` takes what the server writes; ``grace`` are the seconds from
    SIGTERM to SIGKILL."""

    words: tuple[str, ...]
    log: str
    environment: Mapping[str, str] = {}
    grace: float = 10.0

    def __repr__(self) -> str:
        return f"Order({self.words[0]})"  # no environment


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The server's process, which leads its group and session."""

    pid: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The command could not be started at all."""

    message: str


class Over(msgspec.Struct, frozen=True, tag=True):
    """It has ended: its exit code, negative for a signal; ``left`` are processes that even SIGKILL did not end, itself
    perhaps among them."""

    code: int
    left: tuple[int, ...] = ()


Told = Begun | Failed | Over


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # of a terminal: draftmill decides what they mean
    awake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    if _LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        server = _start(order)
    except OSError as error:
        _tell(Failed(f"{order.words[0]}: {error.strerror or error}"))
        return
    _tell(Begun(server))
    code = _watch(server, awake)
    if code is None:
        code = _end(server, order.grace)
    left = _clear(server, 0.0 if code is None else _STUCK)
    if code is None:
        code, left = -signal.SIGKILL, left if _LINUX else (server,)
    _tell(Over(code, left))


def _start(order: Order) -> int:
    library = ctypes.CDLL(None) if _LINUX else None  # loaded here: between fork and exec nothing may be

    def with_parent() -> None:
        if library:
            library.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # what is ignored here would be ignored by the server too
    try:
        with Path(order.log).open("ab") as log:
            process = subprocess.Popen(
                order.words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **order.environment},
                preexec_fn=with_parent,
            )
    finally:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    process.returncode = 0  # it is waited for below, together with all that it leaves behind
    return process.pid


def _watch(server: int, awake: int) -> int | None:
    """Wait until the server has ended (its code) or shall be ended (None)."""
    stdin = sys.stdin.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(stdin, selectors.EVENT_READ)
        selector.register(awake, selectors.EVENT_READ)
        while True:
            if (code := _reap(server)) is not None:
                return code
            for key, _ in selector.select():
                if key.fd == stdin and not os.read(stdin, 1024):
                    return None
                if key.fd == awake and signal.SIGTERM in os.read(awake, 1024):
                    return None


def _end(server: int, grace: float) -> int | None:
    """SIGTERM to the group, SIGKILL to what is left after the grace. Returns the server's code; None where it is still
    there long after that: one that waits for a driver or a dead disk does not even hear of SIGKILL."""
    _signal_group(server, signal.SIGTERM)
    _signal_group(server, signal.SIGCONT)  # one that somebody stopped would not hear of it
    until = time.monotonic() + grace
    while (code := _reap(server)) is None:
        if time.monotonic() > until + _STUCK:
            return None
        if time.monotonic() > until:
            _signal_group(server, signal.SIGKILL)
        time.sleep(_LOOK)
    return code


def _clear(server: int, stuck: float) -> tuple[int, ...]:
    """End what the server has left behind. Returns what is still there so many seconds after SIGKILL."""
    _signal_group(server, signal.SIGTERM)
    began = time.monotonic()
    while left := _descendants():
        waited = time.monotonic() - began
        if waited > _ORPHANS + stuck:
            return tuple(left)
        if waited > _ORPHANS:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK)
        _reap(server)
    if not _LINUX:
        _signal_group(server, signal.SIGKILL)
    return ()


def _reap(server: int) -> int | None:
    """Bury all that have ended. Returns the server's exit code where it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid == server:
                code = os.waitstatus_to_exitcode(status)
    return code


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(leader, number)


def _descendants() -> list[int]:
    """All processes below this one, by ``/proc``; none where there is no such thing."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat") if _LINUX else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = stat.read_text()
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found, todo = [], [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _tell(told: Told) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(1, msgspec.json.encode(told) + b"\n")


if __name__ == "__main__":
    main()
