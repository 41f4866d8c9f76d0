"""The few file operations that durability rests on, in one place, so that tests can put a failing disk under them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from draftmill.errors import StorageError


class Files(Protocol):
    """What the appender asks of a file system. Every method raises OSError as the system does."""

    def open_append(self, path: Path) -> int: ...
    def write(self, fd: int, data: bytes) -> int: ...
    def fsync(self, fd: int) -> None: ...
    def fsync_folder(self, folder: Path) -> None: ...
    def size(self, fd: int) -> int: ...
    def read(self, fd: int, length: int, offset: int) -> bytes: ...
    def truncate(self, fd: int, length: int) -> None: ...
    def close(self, fd: int) -> None: ...


class SystemFiles:
    """The operating system's files."""

    def open_append(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def fsync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def read(self, fd: int, length: int, offset: int) -> bytes:
        return os.pread(fd, length, offset)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def close(self, fd: int) -> None:
        os.close(fd)


SYSTEM = SystemFiles()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``: the caller writes it, then it is synced and takes its place, whole or not."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        fd = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(path)
        SYSTEM.fsync_folder(path.parent)
    except OSError as error:
        if error.filename and Path(error.filename) not in (path, path.parent, temporary):
            raise StorageError(f"{error.filename}: cannot be read: {error.strerror or error}") from error
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}", disk_advice(error)) from error
    finally:
        with suppress(OSError):  # a disk that is read only refuses this too, in words of the temporary file
            temporary.unlink(missing_ok=True)


def disk_advice(error: OSError) -> str:
    """What to do about a failed write."""
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full: free some space and run the same command again; what was synced is kept"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "there is no such folder, and none can be made: name another place"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "it may not be written: name another place, or give this user the right to write there"
    return "run the same command again once the disk is in order; what was synced is kept"
