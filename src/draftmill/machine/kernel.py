"""What the kernel said of processes that it killed for memory, as far as it may be read."""

import os
import subprocess
import time
from contextlib import suppress

_MARKS = ("Out of memory", "out of memory", "Killed process", "oom-kill", "oom_reaper")
_RECORD = 8192  # bytes of one message, by the kernel's own bound


def killed(since: float) -> list[str]:
    """Messages about memory since an instant of ``time.monotonic()``, oldest first; none where they cannot be read.

    They are of all processes of the machine: what they are worth depends on how ours ended.
    """
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return _dmesg(since)
    lines = []
    try:
        while True:
            try:
                record = os.read(fd, _RECORD).decode("utf-8", "replace")
            except BrokenPipeError:  # it was overwritten before we read it; the next one follows
                continue
            head, _, text = record.partition(";")
            stamp = head.split(",")[2] if head.count(",") >= 2 else ""
            if stamp.isdigit() and int(stamp) / 1e6 >= since and any(mark in text for mark in _MARKS):
                lines.append(text.splitlines()[0])
    except OSError:  # the end
        return lines
    finally:
        os.close(fd)


def _dmesg(since: float) -> list[str]:
    with suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run(["dmesg"], capture_output=True, text=True, timeout=10, check=True).stdout
        return [
            text
            for line in said.splitlines()
            if line.startswith("[") and any(mark in line for mark in _MARKS)
            for stamp, _, text in [line[1:].partition("] ")]
            if _seconds(stamp) >= since
        ]
    return []


def _seconds(stamp: str) -> float:
    """The stamp of a line; one that is none is taken as new."""
    try:
        return float(stamp)
    except ValueError:
        return time.monotonic()
