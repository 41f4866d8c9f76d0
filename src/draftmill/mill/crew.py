"""Worker processes that do the same to item after item, in order; for a few items none is started."""

import contextlib
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import connection, get_context, parent_process, resource_tracker
from typing import Any, TypeVar

from draftmill.errors import RunError

A = TypeVar("A")
B = TypeVar("B")

_ALONE = 6  # items that are done here first: fewer are done before a worker would have started
_AHEAD = 3  # items a worker that are given out before the oldest is back


class Crew:
    """So many ``cores`` work; with one, all is done in place. End it with ``close``.

    What is called must be the same in every process: it is pickled once, and each worker keeps what it made of it.
    """

    def __init__(self, cores: int | None = None) -> None:
        self.cores = cores or _usable_cores()
        self._pool: ProcessPoolExecutor | None = None

    def map(self, work: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
        """``work`` of each item, in the order of the items, which are taken a few ahead. Raises RunError where a worker
        process dies."""
        rest = iter(items)
        for item in rest if self.cores == 1 else [] if self._pool else islice(rest, _ALONE):
            yield work(item)
        if self.cores == 1 or (ahead := next(rest, None)) is None:
            return
        blob = pickle.dumps(work)
        given: deque[Future[B]] = deque()
        try:
            given.append(self._submit(blob, ahead))
            for item in rest:
                given.append(self._submit(blob, item))
                if len(given) > _AHEAD * self.cores:
                    yield given.popleft().result()
            while given:
                yield given.popleft().result()
        except BrokenProcessPool:
            self.close()
            raise RunError(
                "a worker process of the preparation died before its work was done",
                "the system may have ended it for want of memory: try `--cores 1`; what is done is kept, and the same "
                "command goes on there",
            ) from None
        finally:
            for future in given:
                future.cancel()

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, once they are done with what they have in hand."""
        pool, self._pool = self._pool, None
        if pool:
            pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, blob: bytes, item: A) -> "Future[Any]":
        with _uninterrupted():
            if self._pool is None:
                # spawned: a forked copy of a process with threads (tokenizers, uvloop, rich) can hang
                self._pool = ProcessPoolExecutor(self.cores, get_context("spawn"), initializer=_begin)
                for _ in range(self.cores):  # all of them now: the pool cannot end well while it is adding one
                    self._pool.submit(int)
            return self._pool.submit(_do, blob, item)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until it is over: it must meet no worker before ``_begin``, nor its parent while that starts it."""
    resource_tracker.ensure_running()  # else the first worker's start begins it, which unblocks the signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # workers inherit it
    came: list[tuple[int, Any]] = []  # at another thread, which tells Python's main one
    alone = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *call: came.append(call)) if alone else None
    try:
        yield
    finally:
        if alone:
            signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if came and callable(before):
            before(*came[0])


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_made: dict[bytes, Callable[[Any], Any]] = {}


def _begin() -> None:
    """A worker starts: Ctrl-C is its parent's business, and it does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is a process for every core
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        with contextlib.suppress(OSError):
            connection.wait([parent.sentinel])
        os._exit(1)


def _do(blob: bytes, item: Any) -> Any:
    work = _made.get(blob)
    if work is None:
        _made.clear()  # of one dataset at a time
        work = _made[blob] = pickle.loads(blob)  # noqa: S301 - our own parent's
    return work(item)
