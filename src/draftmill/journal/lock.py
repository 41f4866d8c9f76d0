"""One process a run: an advisory lock that the kernel frees when its holder dies, however it dies."""

import fcntl
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from draftmill.errors import LockedError, StorageError


class Holder(msgspec.Struct, frozen=True):
    """Who holds a run."""

    pid: int
    host: str
    since: str
    command: str


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``. Raises LockedError, naming the holder, when another process has it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(
                f"{path.parent}: {_told(os.pread(fd, 4096, 0))}", "wait for it or stop it first"
            ) from None
        holder = Holder(
            os.getpid(),
            socket.gethostname(),
            datetime.now(UTC).isoformat(timespec="seconds"),
            " ".join(["draftmill", *sys.argv[1:]])[:500],
        )
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(holder), 0)
        yield
    finally:
        os.close(fd)


def holder_lives(path: Path) -> bool | None:
    """Whether the process that began the last start lives; None where it ran on another machine, or nobody knows.

    The lock itself is never tried: a start that comes just then would be refused.
    """
    holder = last_holder(path)
    if holder is None or holder.host != socket.gethostname():
        return None
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def last_holder(path: Path) -> Holder | None:
    """Who began the last start; None where nobody knows."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None


def _told(data: bytes) -> str:
    try:
        holder = msgspec.json.decode(data, type=Holder)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return "another process holds this run"
    return f"process {holder.pid} on {holder.host} holds this run since {holder.since} ({holder.command})"
