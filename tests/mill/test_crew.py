"""Worker processes: the order of the items, their end, and what is said when one dies."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from draftmill.errors import RunError, SourceError
from draftmill.mill import crew as crews
from draftmill.mill.crew import Crew


class Square:
    """Work that says who did it, and does odd things to some numbers."""

    def __call__(self, number: int) -> tuple[int, int]:
        if number == -1:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == -2:
            raise SourceError("no such number", "take another")
        time.sleep(0.001 * (number % 3))
        return number * number, os.getpid()


def alive(pids: set[int]) -> set[int]:
    found = set()
    for pid in pids - {os.getpid()}:
        try:
            os.kill(pid, 0)
            found.add(pid)
        except ProcessLookupError:
            pass
    return found


@pytest.mark.parametrize("count", [0, 1, 6, 7, 60])
def test_results_come_in_the_order_of_the_items(count: int) -> None:
    with Crew(2) as crew:
        done = list(crew.map(Square(), range(count)))
        again = list(crew.map(Square(), range(count)))
    assert [square for square, _ in done] == [square for square, _ in again] == [n * n for n in range(count)]
    pids = {pid for _, pid in done + again}
    assert len(pids - {os.getpid()}) == (0 if count < 7 else len(pids) - 1) and alive(pids) == set()


def test_one_core_and_few_items_start_no_process() -> None:
    assert {pid for _, pid in Crew(1).map(Square(), range(99))} == {os.getpid()}
    assert {pid for _, pid in Crew(8).map(Square(), range(5))} == {os.getpid()}


def test_items_are_taken_a_few_ahead_only() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(10_000):
            taken = number
            yield number

    with Crew(2) as crew:
        results = crew.map(Square(), items())
        for _ in range(20):
            next(results)
        results.close()  # type: ignore[attr-defined]
    assert taken < 40


def test_a_worker_that_dies_is_one_clear_error() -> None:
    with Crew(2) as crew, pytest.raises(RunError, match="a worker process of the preparation died") as caught:
        list(crew.map(Square(), [*range(10), -1, *range(10)]))
    assert "--cores 1" in caught.value.advice


def test_a_fault_in_a_worker_is_told_as_it_is() -> None:
    with Crew(2) as crew, pytest.raises(SourceError, match="no such number") as caught:
        list(crew.map(Square(), [*range(10), -2]))
    assert caught.value.advice == "take another"


def test_cores_are_those_that_may_be_used() -> None:
    assert Crew().cores == len(os.sched_getaffinity(0)) == crews._usable_cores()


def test_ctrl_c_waits_until_workers_have_been_started() -> None:
    inside = []
    with pytest.raises(KeyboardInterrupt), crews._uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)
        inside.append(True)
    assert inside and signal.getsignal(signal.SIGINT) is signal.default_int_handler
