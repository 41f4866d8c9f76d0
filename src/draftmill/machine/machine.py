"""The machine that this runs on: its GPUs by the driver's own library, its memory by ``/proc`` and control groups."""

import os
import shutil
from pathlib import Path

import msgspec

from draftmill.machine.gpus import Gpu, gpus
from draftmill.machine.groups import files_of

_KIB = 2**10
_UNLIMITED = 1 << 60  # what version 1 of control groups writes where there is no limit


class Machine(msgspec.Struct, frozen=True):
    """``host`` are the bytes that processes here may have in all, None where nothing says so; ``limit`` names what set
    them, where it is less than the machine has. ``disk`` are bytes free in a folder."""

    gpus: tuple[Gpu, ...] = ()
    host: float | None = None
    limit: str = ""
    cores: int = 1


def probe(root: Path = Path("/")) -> Machine:
    """Look at this machine. Nothing that is missing is an error."""
    host, limit = memory(root)
    return Machine(tuple(gpus()), host, limit, os.cpu_count() or 1)


def memory(root: Path = Path("/")) -> tuple[float | None, str]:
    """Bytes of memory: the machine's, or less where a control group allows less. ``root`` is where ``/`` lies."""
    total: float | None = None
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:") and line.split()[1].isdigit():
            total = int(line.split()[1]) * _KIB
    files = files_of(root, "memory.max", "memory.limit_in_bytes")
    limits = [(int(text), str(path)) for path in files if (text := _read(path).strip()).isdigit()]
    least, where = min(limits, default=(_UNLIMITED, ""))
    if least < _UNLIMITED and (total is None or least < total):
        return float(least), "/" + str(Path(where).relative_to(root))
    return total, ""


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def disk_free(folder: Path) -> float:
    """Bytes free where a folder lies or will lie."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return float(shutil.disk_usage(there).free)
