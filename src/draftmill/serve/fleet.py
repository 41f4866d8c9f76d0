"""All servers of one launch, each kept alive by itself, with what happened to them on disk."""

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from draftmill.capacity.launch import Launch
from draftmill.capacity.started import Started
from draftmill.errors import ServerError, StorageError
from draftmill.ids import encode
from draftmill.journal.folder import ServeFolder
from draftmill.journal.lock import locked
from draftmill.journal.writer import Appender
from draftmill.recipe import EngineSpec
from draftmill.serve.replica import Replica, State, Tell

STALL = 900.0  # seconds of silence: graphs of a large model are captured without a word for minutes


class Fleet:
    """The replicas of ``launch``. Begin with ``start``, end with ``stop``.

    ``specs`` are the recipe's engines at their ports, as far as it has any (its API key's variable is used);
    ``predicted`` tokens and ``default`` fraction come from the plan. ``tell(kind, subject, message)`` hears what
    stands in ``events.jsonl`` too.
    """

    def __init__(
        self,
        launch: Launch,
        folder: ServeFolder,
        tell: Tell,
        *,
        specs: Sequence[EngineSpec] = (),
        predicted: int | None = None,
        default: float | None = None,
        stall: float = STALL,
    ) -> None:
        self.folder = folder
        self._launch = found(launch)
        self._heard = tell
        self._specs = specs
        self._predicted, self._default, self._stall = predicted, default, stall
        self._open = ExitStack()
        self._events: Appender | None = None
        self._starts: Appender | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.replicas: list[Replica] = []

    @property
    def urls(self) -> list[str]:
        return [self._launch.url(replica) for replica in range(self._launch.dp)]

    @property
    def error(self) -> ServerError | None:
        """Why no server is left, where none is."""
        if self.replicas and all(replica.state is State.GONE for replica in self.replicas):
            return self.replicas[0].error
        return None

    @property
    def coming(self) -> bool:
        """Whether one that is not there now is expected."""
        return any(replica.state in (State.STARTING, State.DOWN) for replica in self.replicas)

    async def start(self) -> None:
        """Start all and wait until each has generated a token or is given up. Raises ServerError where none is left,
        LockedError where another process serves from this folder."""
        self.folder.create()
        self._open.enter_context(locked(self.folder.lock))
        self._events = self._appender(self.folder.events)
        self._starts = self._appender(self.folder.starts)
        self.replicas = [
            Replica(
                self._launch,
                number,
                self.folder,
                self._spec(number),
                self._tell,
                self._started,
                predicted=self._predicted,
                default=self._default,
                stall=self._stall,
            )
            for number in range(self._launch.dp)
        ]
        self._tasks = [asyncio.create_task(replica.keep()) for replica in self.replicas]
        try:
            await asyncio.gather(*(replica.settled.wait() for replica in self.replicas))
            self._raise_faults()
            if self.error:
                raise self.error
        except BaseException:
            await self.stop()
            raise

    async def ended(self) -> None:
        """Until every server is given up. Raises ServerError then."""
        await asyncio.wait(self._tasks)
        self._raise_faults()
        if self.error:
            raise self.error

    async def stop(self) -> None:
        """End all servers and wait until nothing of them is left."""
        for replica in self.replicas:
            replica.stop()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._open.close()
        for error in ends:
            if isinstance(error, Exception):
                raise error

    def _raise_faults(self) -> None:
        for task in self._tasks:
            if task.done() and (error := task.exception()):
                raise error

    def _appender(self, path: Path) -> Appender:
        appender = Appender(path)
        self._open.callback(appender.close)
        return appender

    def _spec(self, number: int) -> EngineSpec:
        given = self._specs[number].model_dump() if number < len(self._specs) else {}
        return EngineSpec.model_validate(given | {"kind": self._launch.kind, "url": self._launch.url(number)})

    def _tell(self, kind: str, subject: str, message: str) -> None:
        _write(self._events, {"time": _now(), "kind": kind, "subject": subject, "message": message})
        with suppress(Exception, SystemExit):  # rich ends the process where nobody reads it: the servers are kept
            self._heard(kind, subject, message)

    def _started(self, found: Started) -> None:
        _write(self._starts, msgspec.to_builtins(replace(found, time=_now())))


@asynccontextmanager
async def launched(
    launch: Launch,
    folder: Path,
    *,
    tell: Callable[[str, str, str], None] = lambda *_: None,
    stall: float = STALL,
) -> AsyncIterator[str]:
    """One server of ``launch`` while the context is open: its URL, once it has generated a token.

    Its log, events and starts lie in ``folder``. It is kept alive meanwhile, and nothing of it is left afterwards.
    Raises ServerError where it cannot be started.
    """
    fleet = Fleet(replace(launch, dp=1), ServeFolder(folder), tell, stall=stall)
    await fleet.start()
    try:
        yield fleet.urls[0]
    finally:
        await fleet.stop()


def found(launch: Launch) -> Launch:
    """The launch with the command that is there: without a ``llama-server``, the one in the wheel of llama.cpp."""
    if launch.kind != "llamacpp" or launch.command or shutil.which("llama-server"):
        return launch
    if importlib.util.find_spec("xllamacpp") is None:
        return launch
    return replace(launch, command=(sys.executable, "-m", "draftmill.engines.llama_server"))


def _write(appender: Appender | None, line: object) -> None:
    try:
        if appender:
            appender.append([encode(line)])
    except StorageError:
        pass  # a full disk must not take a server down that serves


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
