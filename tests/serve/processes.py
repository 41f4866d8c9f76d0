"""Processes as a test sees them: which live, and which belong to a server."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet buried does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def below(pid: int) -> list[int]:
    """All living descendants of a process."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid and alive(child := int(stat.parent.name)):
                found += [child, *below(child)]
    return found


def with_words(*words: str) -> list[int]:
    """The living processes whose command line holds all these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().decode("utf-8", "replace").split("\0")
            if set(words) <= set(line) and int(path.parent.name) != os.getpid() and alive(int(path.parent.name)):
                found.append(int(path.parent.name))
    return found


def until(true: Callable[[], object], seconds: float = 300.0) -> None:
    """Wait for it, and fail where it does not come."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"it did not come within {seconds:.0f} s"
        time.sleep(0.02)
