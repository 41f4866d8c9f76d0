"""What a machine says of itself: its own files, and control groups of both versions."""

from pathlib import Path

import pytest

from draftmill.capacity.cards import CARDS, by_driver
from draftmill.capacity.headroom import MIB
from draftmill.machine.gpus import gpus
from draftmill.machine.machine import disk_free, memory, probe

MEMINFO = "MemTotal:       24689604 kB\nMemFree:        17000000 kB\n"


def root(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "bytes", "limit"),
    [
        ({}, None, ""),
        ({"proc/meminfo": MEMINFO}, 24_689_604 * 1024, ""),
        ({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None, ""),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "8000000000\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
            },
            8_000_000_000,
            "/sys/fs/cgroup/a/memory.max",
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "5:cpu:/x\n4:memory,hugetlb:/y\n",
                "sys/fs/cgroup/memory/y/memory.limit_in_bytes": "9000000000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            9_000_000_000,
            "/sys/fs/cgroup/memory/y/memory.limit_in_bytes",
        ),
        ({"proc/meminfo": "rubbish\n", "proc/self/cgroup": "rubbish\n\n"}, None, ""),
    ],
)
def test_memory(tmp_path: Path, files: dict[str, str], bytes: int | None, limit: str) -> None:
    found, where = memory(root(tmp_path, files))
    assert where == limit
    assert found == (24_689_604 * 1024 if bytes is None and "proc/self/cgroup" in files and found else bytes)


def test_this_machine() -> None:
    here = probe()
    assert here.host and here.host > 10**8
    assert here.cores >= 1
    assert all(gpu.memory >= gpu.free > 0 for gpu in gpus())
    assert disk_free(Path("/nowhere/at/all")) > 0


@pytest.mark.parametrize(
    ("name", "mib", "card"),
    [
        ("NVIDIA H200", 143_771, "h200"),
        ("NVIDIA H100 80GB HBM3", 81_559, "h100"),
        ("NVIDIA H100 NVL", 95_830, "h100-nvl"),
        ("NVIDIA A100-SXM4-40GB", 40_960, "a100-40"),
        ("NVIDIA A100-SXM4-80GB", 81_920, "a100-80"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, "rtx-pro-6000"),
        ("NVIDIA RTX 6000 Ada Generation", 49_140, "rtx-6000-ada"),
        ("NVIDIA GeForce RTX 4090", 24_564, "rtx-4090"),
        ("NVIDIA L40S", 46_068, "l40s"),
        ("NVIDIA L4", 23_034, "l4"),
        ("NVIDIA T400", 4096, None),
    ],
)
def test_a_card_by_its_drivers_name(name: str, mib: int, card: str | None) -> None:
    assert by_driver(name, mib * MIB) == (CARDS[card] if card else None)
