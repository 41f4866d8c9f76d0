"""The scribe writes what the mill gets: whole groups of lines, synced before anything counts as done."""

import asyncio
from collections.abc import Callable

from draftmill.errors import StorageError
from draftmill.journal.writer import Appender
from draftmill.mill import clock

_GROUP_SECONDS = 0.05  # answers that come within this time share one sync; no answer waits longer for it


class Scribe:
    """One writer task for all files of a run. ``put`` hands over a line and what to do once it is durable.

    A file that cannot be written stops the scribe: ``failure`` is set, ``on_failure`` called, and every later line is
    dropped, so that its position stays owed. ``ended`` hears of the task's own end.
    """

    def __init__(self, on_failure: Callable[[], None], ended: Callable[["asyncio.Task[None]"], None]) -> None:
        self.failure: StorageError | None = None
        self.dropped = 0
        self._on_failure = on_failure
        self._queue: list[tuple[Appender, bytes, Callable[[], None]]] = []
        self._filled = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._write())
        self._task.add_done_callback(ended)

    def put(self, file: Appender, line: bytes, then: Callable[[], None] = lambda: None) -> None:
        """Queue one line for a file; ``then`` is called on the event loop once the line is on the disk."""
        self._queue.append((file, line, then))
        self._filled.set()

    async def close(self) -> None:
        """Write and sync all that was put."""
        self._closing = True
        self._filled.set()
        await self._task

    async def _write(self) -> None:
        while not (self._closing and not self._queue):
            await self._filled.wait()
            self._filled.clear()
            group, self._queue = self._queue, []
            if self.failure:
                self.dropped += len(group)
                continue
            if not group:
                continue
            started = clock.now()
            try:
                await asyncio.to_thread(_append, group)
            except StorageError as error:
                self.failure = error
                self.dropped += len(group)
                self._on_failure()
                continue
            for _, _, then in group:
                then()
            if not self._closing:
                await asyncio.sleep(max(0.0, _GROUP_SECONDS - (clock.now() - started)))


def _append(group: list[tuple[Appender, bytes, Callable[[], None]]]) -> None:
    files: dict[Appender, list[bytes]] = {}
    for file, line, _ in group:
        files.setdefault(file, []).append(line)
    for file, lines in files.items():
        file.append(lines)
