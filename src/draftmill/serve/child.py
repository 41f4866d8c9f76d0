"""A server's process as draftmill sees it: a guardian at the other end of two pipes."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import msgspec

from draftmill.capacity.launch import Invocation
from draftmill.errors import ServerError
from draftmill.serve.guardian import Begun, Failed, Order, Over, Told


class Child:
    """One server under its guardian. Made by ``Child.start``; ``over`` is done when nothing of it is left."""

    def __init__(self, guardian: asyncio.subprocess.Process, pid: int) -> None:
        self.pid = pid
        self._guardian = guardian
        self.over: asyncio.Task[Over] = asyncio.create_task(self._hear())

    @classmethod
    async def start(cls, invocation: Invocation, log: Path, *, grace: float = 10.0) -> "Child":
        """Start the command; what it writes is appended to ``log``. Raises ServerError where there is none such."""
        guardian = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "draftmill.serve.guardian",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us
        )
        assert guardian.stdin is not None
        order = Order(invocation.words, str(log.absolute()), invocation.environment, grace)
        try:
            with contextlib.suppress(ConnectionError):
                guardian.stdin.write(msgspec.json.encode(order) + b"\n")
                await guardian.stdin.drain()
            told = await _next(guardian)
        except BaseException:
            guardian.stdin.close()
            raise
        if isinstance(told, Begun):
            return cls(guardian, told.pid)
        await guardian.wait()
        raise ServerError(told.message if isinstance(told, Failed) else "the guardian of the server died at once")

    async def stop(self) -> Over:
        """End the server and all that it started, and wait until they are gone."""
        if self._guardian.stdin is not None:
            self._guardian.stdin.close()
        return await asyncio.shield(self.over)

    async def _hear(self) -> Over:
        told = await _next(self._guardian)
        if not isinstance(told, Over):  # somebody killed the guardian, and the kernel its server
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            told = Over(-signal.SIGKILL)
        await self._guardian.wait()
        return told


async def _next(guardian: asyncio.subprocess.Process) -> Told | None:
    assert guardian.stdout is not None
    line = await guardian.stdout.readline()
    return msgspec.json.decode(line, type=Told) if line else None
