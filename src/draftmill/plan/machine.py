"""The machine that this runs on: its GPUs by the driver's own library, its memory by ``/proc`` and control groups."""

import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

_KIB = 2**10
_UNLIMITED = 1 << 60  # what version 1 of control groups writes where there is no limit
_NAME = 96


class Gpu(msgspec.Struct, frozen=True):
    """One GPU as its driver reports it; bytes."""

    name: str
    memory: float
    free: float


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
    limits = [(int(text), str(path)) for path in _limits(root) if (text := _read(path).strip()).isdigit()]
    least, where = min(limits, default=(_UNLIMITED, ""))
    if least < _UNLIMITED and (total is None or least < total):
        return float(least), "/" + str(Path(where).relative_to(root))
    return total, ""


def _limits(root: Path) -> Iterator[Path]:
    """The files that may hold a limit: of the process's own control group and of all above it."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        version_1 = number != "0"
        if version_1 and "memory" not in controllers.split(","):
            continue
        base = root / ("sys/fs/cgroup/memory" if version_1 else "sys/fs/cgroup")
        name = "memory.limit_in_bytes" if version_1 else "memory.max"
        own = Path(path.lstrip("/"))
        yield from (base / part / name for part in (own, *own.parents))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def gpus() -> list[Gpu]:
    """The GPUs that NVML lists; none where there is no driver. Its library is a part of every NVIDIA driver."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2():
            return []
    except (OSError, AttributeError):
        return []
    try:
        count = ctypes.c_uint()
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        return [gpu for i in range(count.value) if (gpu := _gpu(nvml, i))]
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: ctypes.CDLL, number: int) -> Gpu | None:
    handle, held, name = ctypes.c_void_p(), _Memory(), ctypes.create_string_buffer(_NAME)
    failed = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(number), ctypes.byref(handle))
    if failed or nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(held)):
        return None
    nvml.nvmlDeviceGetName(handle, name, ctypes.c_uint(_NAME))
    return Gpu(name.value.decode(errors="replace"), float(held.total), float(held.free))


def disk_free(folder: Path) -> float:
    """Bytes free where a folder lies or will lie."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return float(shutil.disk_usage(there).free)
