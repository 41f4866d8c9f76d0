"""The GPUs of this machine and who holds their memory, by NVML, which is a part of every NVIDIA driver."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

_NAME = 96
_MOST = 256  # processes on one GPU


class Gpu(msgspec.Struct, frozen=True):
    """One GPU as its driver reports it; bytes."""

    name: str
    memory: float
    free: float


class Holder(msgspec.Struct, frozen=True):
    """A process that holds memory of a GPU. ``bytes`` is None where the driver does not say (in containers)."""

    gpu: int
    pid: int
    name: str
    bytes: float | None


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):  # nvmlProcessInfo_t of the second and third version of the call
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    )


_UNKNOWN = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE


def gpus() -> list[Gpu]:
    """The GPUs that NVML lists; none where there is no driver."""
    with _nvml() as (nvml, count):
        return [gpu for i in range(count) if nvml and (gpu := _gpu(nvml, i))]


def holders() -> list[Holder]:
    """The processes that hold memory of a GPU, as far as the driver lets them be seen from here."""
    with _nvml() as (nvml, count):
        return [holder for i in range(count) if nvml for holder in _holders(nvml, i)]


@contextmanager
def _nvml() -> Iterator[tuple[ctypes.CDLL | None, int]]:
    """The library and the number of GPUs; None and 0 where there is no driver."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        failed = nvml.nvmlInit_v2()
    except (OSError, AttributeError):
        failed = True
    if failed:
        yield None, 0
        return
    try:
        count = ctypes.c_uint()
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        yield nvml, count.value
    finally:
        nvml.nvmlShutdown()


def _handle(nvml: ctypes.CDLL, number: int) -> ctypes.c_void_p | None:
    handle = ctypes.c_void_p()
    return None if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(number), ctypes.byref(handle)) else handle


def _gpu(nvml: ctypes.CDLL, number: int) -> Gpu | None:
    held, name = _Memory(), ctypes.create_string_buffer(_NAME)
    handle = _handle(nvml, number)
    if handle is None or nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(held)):
        return None
    nvml.nvmlDeviceGetName(handle, name, ctypes.c_uint(_NAME))
    return Gpu(name.value.decode(errors="replace"), float(held.total), float(held.free))


def _holders(nvml: ctypes.CDLL, number: int) -> Iterator[Holder]:
    handle, count, found = _handle(nvml, number), ctypes.c_uint(_MOST), (_Process * _MOST)()
    call = getattr(nvml, "nvmlDeviceGetComputeRunningProcesses_v3", None)
    if handle is None or call is None or call(handle, ctypes.byref(count), found):
        return
    for process in found[: min(count.value, _MOST)]:
        bytes = None if process.used == _UNKNOWN else float(process.used)
        yield Holder(number, process.pid, _command(process.pid), bytes)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process that cannot be seen from here"
