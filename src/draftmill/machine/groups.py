"""Control groups of memory, of both versions: where the files of our own one and of all above it lie."""

from collections.abc import Iterator
from pathlib import Path


def files_of(root: Path, version_2: str, version_1: str) -> Iterator[Path]:
    """The files of this name, which may not exist: of the process's own control group, then of those above it."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        old = number != "0"
        if old and "memory" not in controllers.split(","):
            continue
        base = root / ("sys/fs/cgroup/memory" if old else "sys/fs/cgroup")
        own = Path(path.lstrip("/"))
        yield from (base / part / (version_1 if old else version_2) for part in (own, *own.parents))


def kills(root: Path = Path("/")) -> int:
    """How many processes control groups of ours have had killed for memory; 0 where nothing says so.

    A group that holds others counts theirs as well (``memory.events``), so the largest number is that of all.
    """
    counts = [0]
    for path in files_of(root, "memory.events", "memory.oom_control"):
        for line in _read(path).splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.strip().isdigit():
                counts.append(int(count))
    return max(counts)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
