"""The embedded engine: a llama.cpp server that draftmill starts itself, in a process of its own."""

import asyncio
import contextlib
import importlib.util
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from draftmill.engines.embedded_server import Config, Listening
from draftmill.engines.http import Http
from draftmill.engines.llamacpp import LlamaCpp
from draftmill.engines.protocol import Identity, OnIds, Reply, Request, Scored
from draftmill.errors import SetupFault, TransportFault

NAME = "embedded"
START_SECONDS = 600.0  # a big model from a slow disk
_MOST_DEATHS = 16  # in a row without an answer; a prompt that kills it is given up after four
_TAIL = 4000  # bytes at the log's end that a message quotes from


class Embedded(LlamaCpp):
    """The llama.cpp client together with its server. Made by ``Embedded.start``, ended by ``close``.

    The server ends with this process, however that ends. When it dies alone, calls raise TransportFault until
    ``identify`` or ``restart`` brings it back, at another port and with another key; ``tell`` hears of the former.
    """

    def __init__(
        self,
        gguf: Path,
        slots: int,
        context: int,
        threads: int,
        prompt_cache: bool,
        log: Path | None,
        tell: Callable[[str], None] | None = None,
        kv: str = "f16",
    ) -> None:
        super().__init__(Http("llamacpp", "http://127.0.0.1:0", name=NAME), prompt_cache)  # until it listens
        self._shape = Config(str(gguf), slots, context, threads, prompt_cache, key="", kv=kv)
        self._log_path = log
        self._log: IO[bytes] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._tell = tell
        self._wanted = False  # from the start to ``close``
        self._deaths = 0  # since its last answer

    @classmethod
    async def start(
        cls,
        gguf: Path,
        *,
        slots: int = 8,
        context: int = 2048,
        threads: int | None = None,
        kv: str = "f16",
        prompt_cache: bool = True,
        log: Path | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> "Embedded":
        """Start a server for ``gguf`` with ``context`` tokens a slot, kept as ``kv``, and wait until it is ready.

        ``log`` takes what the server writes; without it the log is dropped. Raises SetupFault when xllamacpp is not
        installed or the file cannot be loaded.
        """
        if importlib.util.find_spec("xllamacpp") is None:
            raise SetupFault("the embedded engine is not installed", "pip install 'draftmill[embedded]'")
        if not gguf.is_file():
            raise SetupFault(f"{gguf}: no such GGUF file")
        engine = cls(gguf, slots, context, threads or _cores(), prompt_cache, log, tell, kv)
        await engine.restart()
        return engine

    @property
    def url(self) -> str:
        return self._http.url

    @property
    def key(self) -> str:
        """The server's API key, for another client of the same server."""
        return self._shape.key

    @property
    def pid(self) -> int | None:
        """The server's process; None when there is none."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def restart(self) -> None:
        """End the server if it lives and start it afresh."""
        await self._end()
        self._wanted = True
        self._shape = msgspec.structs.replace(self._shape, key=secrets.token_urlsafe(32))
        self._log = self._log_path.open("ab") if self._log_path else tempfile.TemporaryFile()  # noqa: SIM115
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "draftmill.engines.embedded_server",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for us: we end it when we are done
        )
        try:
            listening = await asyncio.wait_for(self._listening(), START_SECONDS)
            self._http = Http("llamacpp", listening.url, self.key, NAME)
            await self._http.get_text("/health")
        except TimeoutError:
            tail = self._tail()
            await self._end()
            raise SetupFault(f"the embedded server was not ready within {START_SECONDS:.0f} s: {tail}") from None
        except BaseException:
            await self._end()
            raise

    async def identify(self) -> Identity:
        """What the server is; one that died is started afresh first, since it is ours to keep alive.

        Raises SetupFault when it cannot be started, and for one that dies again and again.
        """
        if self._wanted and self.pid is None:
            await self._revive()
        found, asked = await super().identify(), self._shape.context
        identity = msgspec.structs.replace(found, kv_dtype=self._shape.kv)  # a server does not say it
        if identity.context is None or identity.context <= asked:
            return identity
        # llama.cpp rounds a slot's context up to whole 256: what was asked for holds
        return msgspec.structs.replace(identity, context=asked, max_prompt=asked - 1)

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        try:
            reply = await super().generate(request, on_ids)
            self._deaths = 0
            return reply
        except TransportFault as fault:
            raise await self._explained(fault) from None

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        try:
            return await super().score(ids, start, top)
        except TransportFault as fault:
            raise await self._explained(fault) from None

    async def close(self) -> None:
        self._wanted = False
        await self._end()

    async def _explained(self, fault: TransportFault) -> TransportFault:
        """With the end of the process, where that is behind it."""
        code = await self._exit_code()
        if code is None:
            return fault
        said = fault.message.removeprefix(f"{NAME}: ")
        return TransportFault(f"{NAME}: the server's process died (exit code {code}): {said}")

    async def _revive(self) -> None:
        code = self._process.returncode if self._process else None  # None: its last start failed
        if code is not None:
            self._deaths += 1
        if self._deaths > _MOST_DEATHS:
            raise SetupFault(
                f"{NAME}: the server's process died {self._deaths} times without one answer between, "
                f"the last time with exit code {code}: {self._tail()}",
                "does the model with its slots and context fit the memory? The run's logs/embedded.log says more",
            )
        await self.restart()
        if self._tell:
            ended = "had ended" if code is None else f"had ended (exit code {code})"
            self._tell(f"its process {ended} and was started again")

    async def _end(self) -> None:
        await super().close()
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # it holds nothing that must be saved
            await process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None

    async def _listening(self) -> Listening:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        with contextlib.suppress(ConnectionError):  # it died at once: the empty line below says so
            process.stdin.write(msgspec.json.encode(self._shape) + b"\n")
            await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            code = await process.wait()
            raise SetupFault(
                f"the embedded server cannot serve {self._shape.gguf} (exit code {code}): {self._tail()}",
                "is it a whole GGUF file, of an architecture that this llama.cpp knows, and does it fit the memory?",
            )
        return msgspec.json.decode(line, type=Listening)

    async def _exit_code(self) -> int | None:
        """The exit code of a server that is gone, None of one that lives. A reset may be seen before the exit is."""
        if self._process is None:
            return None
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self._process.wait()), 1.0)
        return None

    def _tail(self) -> str:
        """The log's last lines."""
        if self._log is None:
            return ""
        if self._log_path:
            return _last_lines(self._log_path.read_bytes())
        self._log.seek(0)
        return _last_lines(self._log.read())


def _last_lines(log: bytes) -> str:
    """The errors among the log's last lines (llama.cpp's letter E after the time), else the lines themselves."""
    lines = log[-_TAIL:].decode("utf-8", "replace").splitlines()
    return " | ".join(([line for line in lines if " E " in line[:20]] or lines)[-4:])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
