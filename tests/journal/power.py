"""Real files on a disk that can be full, fail a sync, and lose what was not synced when its power is cut."""

import errno
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from draftmill.journal.files import SystemFiles


@dataclass
class _Kept:
    """What is certain of one file: its first ``length`` bytes as they are now are on the disk, and behind them on the
    disk still ``cut_off``, which a truncation took away and no sync has made certain yet.

    ``promised`` is what stood there at the last sync that succeeded: no power cut may ever take it."""

    length: int
    named: bool
    cut_off: bytes = b""
    promised: bytearray = field(default_factory=bytearray)


class PoweredDisk(SystemFiles):
    """Dies on demand. What it keeps then is worked out at that very moment: whatever is written afterwards never was,
    once ``restore`` has put the files back.

    ``die_at``: the operation (write, sync, truncation; counted from 1 by ``operations``) in whose middle the power is
    cut, or the process killed. ``full_after``: bytes until it is full. ``fail_sync``: the sync that fails, counted from
    now. ``fail_truncate``: no truncation succeeds. ``on_death`` is called when it dies.
    """

    def __init__(self, draw: random.Random) -> None:
        self.struck: Counter[str] = Counter()
        self.operations = 0
        self.on_death: Callable[[], object] = lambda: None
        self._draw = draw
        self._files: dict[Path, _Kept] = {}
        self._open: dict[int, Path] = {}
        self._survived: dict[Path, tuple[bytes | None, _Kept]] | None = None
        self.calm()

    def calm(self) -> None:
        """No fault is planned any more."""
        self.die_at: int | None = None
        self.cuts_power = True
        self.full_after: int | None = None
        self.fail_sync: int | None = None
        self.fail_truncate = False

    @property
    def dead(self) -> bool:
        return self._survived is not None

    def promised(self) -> dict[Path, bytes]:
        """What every file must begin with for ever."""
        return {path: bytes(kept.promised) for path, kept in self._files.items()}

    def die(self, cuts_power: bool) -> None:
        """The process is killed, or the power of the whole machine is cut."""
        if self._survived is not None:
            return
        self.struck["power cut" if cuts_power else "kill"] += 1
        self._survived = {path: self._outcome(path, kept, cuts_power) for path, kept in self._files.items()}
        self.on_death()

    def restore(self) -> None:
        """Put the files back as they were when it died."""
        for path, (content, kept) in (self._survived or {}).items():
            self._files[path] = kept
            if content is None:
                path.unlink(missing_ok=True)
                del self._files[path]
            else:
                path.write_bytes(content)
        self._survived = None
        self._open.clear()

    # the operations

    def open_append(self, path: Path) -> int:
        there = path.exists()
        fd = super().open_append(path)
        self._open[fd] = path
        self._files.setdefault(path, _Kept(self.size(fd), named=there))
        return fd

    def write(self, fd: int, data: bytes) -> int:
        if self._dies():
            super().write(fd, data[: self._draw.randrange(len(data) + 1)])
            self.die(self.cuts_power)
        if self.full_after is not None and not self.dead:
            data = data[: self.full_after]
            if not data:
                self.struck["disk full"] += 1
                raise OSError(errno.ENOSPC, "No space left on device")
            self.full_after -= len(data)
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        if self._dies():
            self.die(self.cuts_power)
        if self.dead:
            return
        if self.fail_sync is not None:
            self.fail_sync -= 1
            if self.fail_sync <= 0:
                self.fail_sync = None
                self.struck["failed sync"] += 1
                raise OSError(errno.EIO, "Input/output error")
        kept = self._files[self._open[fd]]
        kept.length, kept.cut_off = self.size(fd), b""
        kept.promised += self.read(fd, kept.length - len(kept.promised), len(kept.promised))

    def fsync_folder(self, folder: Path) -> None:
        if not self.dead:
            for path, kept in self._files.items():
                kept.named |= path.parent == folder

    def truncate(self, fd: int, length: int) -> None:
        if self._dies():
            self.die(self.cuts_power)
        if self.fail_truncate and not self.dead:
            self.struck["failed truncation"] += 1
            raise OSError(errno.EIO, "Input/output error")
        kept = self._files[self._open[fd]]
        if length < kept.length and not self.dead:
            kept.cut_off = self.read(fd, kept.length - length, length) + kept.cut_off
            kept.length = length
        super().truncate(fd, length)

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        super().close(fd)

    # what is left of a file

    def _dies(self) -> bool:
        self.operations += 1
        return self.operations == self.die_at and not self.dead

    def _outcome(self, path: Path, kept: _Kept, cuts_power: bool) -> tuple[bytes | None, _Kept]:
        live = path.read_bytes()
        copy = _Kept(kept.length, kept.named, kept.cut_off, kept.promised[:])
        if not cuts_power:
            self.struck["torn line"] += live[-1:] not in (b"", b"\n")
            return live, copy
        if not kept.named and self._draw.random() < 0.5:
            return None, copy
        if kept.cut_off and self._draw.random() < 0.5:  # the truncation never reached the disk
            content = live[: kept.length] + kept.cut_off
        else:
            content = live[: kept.length] + self._torn(live[kept.length :])
        self.struck["torn line"] += content[-1:] not in (b"", b"\n")
        return content, _Kept(len(content), True, b"", kept.promised[:])

    def _torn(self, tail: bytes) -> bytes:
        """What a power cut leaves of bytes that were not synced."""
        if not tail:
            return tail
        at = self._draw.randrange(len(tail) + 1)
        match self._draw.randrange(6):
            case 0:
                return b""
            case 1:
                return tail
            case 2:
                return tail[:-1]  # all but the last newline
            case 3:
                self.struck["zeros"] += 1
                return tail[:at] + bytes(len(tail) - at)  # the file had grown before its data came
            case _:
                return tail[:at]


def last_newline(path: Path) -> int:
    """Where a file's whole lines end."""
    return path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0


def tear(path: Path, draw: random.Random) -> str:
    """Tear a file by hand while nobody has it open: cut inside its last line, or garbage behind its last newline.

    Returns what was done, "" where there is no line."""
    end = last_newline(path)
    if not end:
        return ""
    if draw.random() < 0.5:
        start = path.read_bytes().rfind(b"\n", 0, end - 1) + 1
        os.truncate(path, draw.randrange(start, end))  # the newline alone, the whole line, or anything between
        return "cut line"
    garbage = [b'{"id":"torn', b"\x00" * 300, bytes(draw.randrange(256) for _ in range(40)).replace(b"\n", b" ")]
    with path.open("ab") as file:
        file.write(draw.choice(garbage))
    return "garbage"
