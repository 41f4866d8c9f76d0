"""A disk that forgets: only what was synced survives a crash, plus as much of the rest as the test says."""

import errno
from pathlib import Path


class ForgetfulDisk:
    """A Files layer in memory. ``crash(k)`` keeps the first ``k`` unsynced bytes of every file, and drops the rest.

    ``fail_write_after`` lets that many more bytes through and then raises ENOSPC (writing what fits, as a real disk
    does); ``fail_fsync`` raises EIO at the next file sync, after which the unsynced bytes count as lost.
    """

    def __init__(self) -> None:
        self.live: dict[Path, bytearray] = {}
        self.durable: dict[Path, bytes] = {}
        self.named: set[Path] = set()
        self.fail_write_after: int | None = None
        self.fail_fsync = False
        self._open: dict[int, Path] = {}

    def open_append(self, path: Path) -> int:
        self.live.setdefault(path, bytearray())
        fd = len(self._open) + 3
        self._open[fd] = path
        return fd

    def write(self, fd: int, data: bytes) -> int:
        if self.fail_write_after is not None:
            data = data[: self.fail_write_after]
            if not data:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.fail_write_after -= len(data)
        self.live[self._open[fd]] += data
        return len(data)

    def fsync(self, fd: int) -> None:
        if self.fail_fsync:
            self.fail_fsync = False
            raise OSError(errno.EIO, "Input/output error")
        path = self._open[fd]
        self.durable[path] = bytes(self.live[path])

    def fsync_folder(self, folder: Path) -> None:
        self.named |= {path for path in self.live if path.parent == folder}

    def size(self, fd: int) -> int:
        return len(self.live[self._open[fd]])

    def read(self, fd: int, length: int, offset: int) -> bytes:
        return bytes(self.live[self._open[fd]][offset : offset + length])

    def truncate(self, fd: int, length: int) -> None:
        del self.live[self._open[fd]][length:]

    def close(self, fd: int) -> None:
        self._open.pop(fd)

    def unsynced(self, path: Path) -> int:
        return len(self.live[path]) - len(self.durable.get(path, b""))

    def crash(self, keep: int = 0, fill: bytes = b"") -> None:
        """Power off. ``fill`` stands in place of the lost bytes (a file system that grew the file before its data)."""
        self._open.clear()
        for path in list(self.live):
            if path not in self.named:
                del self.live[path]
                continue
            synced = self.durable.get(path, b"")
            tail = bytes(self.live[path][len(synced) :]) if self.live[path].startswith(synced) else b""
            kept = tail[:keep]
            self.live[path] = bytearray(synced + kept + (fill * (len(tail) - len(kept)) if fill else b""))
            self.durable[path] = bytes(self.live[path])
