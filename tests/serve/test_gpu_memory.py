"""GPU memory after a server's end: waited for, and what others hold told with their names."""

import asyncio

from draftmill.machine.gpus import Gpu, Holder
from draftmill.serve.gpu_memory import freed, taken

GIB = 2**30


def gpus(*free: float) -> list[Gpu]:
    return [Gpu("card", 96.0 * GIB, f * GIB) for f in free]


def after(before: list[Gpu], looks: list[list[Gpu]], found: list[Holder], used: list[int], wait: float) -> list[str]:
    left = iter(looks)
    now = looks[0]

    def look() -> list[Gpu]:
        nonlocal now
        now = next(left, now)
        return now

    return asyncio.run(freed(before, used, look=look, who=lambda: found, wait=wait))


def test_a_driver_gets_time_to_take_it_back() -> None:
    assert after(gpus(95, 95), [gpus(20, 30), gpus(60, 95), gpus(94.5, 95)], [], [0, 1], wait=60) == []


def test_who_still_holds_it_is_named() -> None:
    found = [Holder(1, 77, "python3", 12.0 * GIB), Holder(0, 78, "other", None)]
    said = after(gpus(95, 95), [gpus(95, 80)], found, [0, 1], wait=0)
    assert said == ["GPU 1: 15.0 GiB are held by process 77 (python3, 12.0 GiB)"]
    assert after(gpus(95), [gpus(80)], [], [0], wait=0) == [
        "GPU 0: 15.0 GiB are held by nobody that can be seen from here"
    ]


def test_what_was_held_before_and_other_gpus_are_no_news() -> None:
    assert after(gpus(50, 95), [gpus(49.5, 10)], [], [0], wait=0) == []


def test_before_a_start() -> None:
    found = [Holder(1, 77, "python3", 40.0 * GIB)]
    assert taken(gpus(95, 55, 10), [0, 1], found) == ["GPU 1: 41.0 GiB are held by process 77 (python3, 40.0 GiB)"]
