"""The event loop in virtual time."""

import asyncio
import time

import pytest

from draftmill.mill import clock, virtual


def test_timers_fire_in_order_and_at_their_time() -> None:
    async def main() -> list[tuple[float, str]]:
        fired: list[tuple[float, str]] = []

        async def wait(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            fired.append((clock.now(), name))

        await asyncio.gather(wait(5, "b"), wait(0.001, "a"), wait(86_400 * 9, "z"), wait(5, "c"), wait(86_400, "y"))
        return fired

    result, seconds = virtual.run(main())
    assert [name for _, name in result] == ["a", "b", "c", "y", "z"]
    assert [at for at, _ in result] == pytest.approx([0.001, 5, 5, 86_400, 86_400 * 9], abs=1e-6)
    assert seconds == pytest.approx(86_400 * 9, abs=1e-6)


def test_days_take_no_time() -> None:
    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(3600)

    began = time.monotonic()
    assert virtual.run(main()).seconds == pytest.approx(3_600_000)
    assert time.monotonic() - began < 5


def test_what_is_ready_comes_before_time_moves() -> None:
    async def main() -> float:
        order: list[str] = []
        asyncio.get_running_loop().call_later(1e-6, order.append, "timer")
        for _ in range(100):
            await asyncio.sleep(0)
        assert order == []
        return clock.now()

    assert virtual.run(main()).result == 0.0


def test_a_timer_set_in_the_past_fires_now() -> None:
    async def main() -> float:
        await asyncio.sleep(10)
        done = asyncio.Event()
        asyncio.get_running_loop().call_at(3.0, done.set)
        await done.wait()
        return clock.now()

    assert virtual.run(main()).result == pytest.approx(10)


def test_a_cancelled_timer_does_not_move_the_clock() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1000, print).cancel()
        await asyncio.sleep(1)

    assert virtual.run(main()).seconds == pytest.approx(1)


def test_wait_for_and_timeout() -> None:
    async def main() -> str:
        assert await asyncio.wait_for(asyncio.sleep(5, "in time"), 6) == "in time"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(50), 7)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        done, pending = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(99))], timeout=2)
        return f"{len(done)} done, {len(pending)} pending"

    assert virtual.run(main()) == ("0 done, 1 pending", pytest.approx(17))


def test_threads_run_in_place() -> None:
    async def main() -> int:
        with pytest.raises(OSError, match="disk"):
            await asyncio.to_thread(fail)
        return await asyncio.to_thread(lambda a, b: a + b, 2, b=3)

    def fail() -> None:
        raise OSError("disk")

    assert virtual.run(main()) == (5, 0.0)


def test_an_exception_comes_through_and_the_rest_is_cancelled() -> None:
    cancelled = []

    async def beside() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> None:
        task = asyncio.create_task(beside())
        await asyncio.sleep(1)
        assert not task.done()
        raise KeyError("x")

    with pytest.raises(KeyError):
        virtual.run(main())
    assert cancelled == [True]


def test_waiting_for_nothing_is_said_not_waited_out() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(virtual.Deadlock, match="can never come"):
        virtual.run(main())


def test_two_runs_begin_at_zero() -> None:
    for _ in range(2):
        assert virtual.run(asyncio.sleep(3)).seconds == pytest.approx(3)
