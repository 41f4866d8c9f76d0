import asyncio
import errno
from pathlib import Path

import pytest

from draftmill.engines.protocol import Identity, Load, OnIds, Reply, Request
from draftmill.errors import (
    SetupFault,
    StorageError,
    TransportFault,
)
from draftmill.journal.sent import SentMark
from draftmill.ledger.rows import rows
from draftmill.ledger.standing import read_failures
from draftmill.mill import load as loads
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.recipe import Dataset, Lane, LongPrompts
from tests.journal.disk import ForgetfulDisk
from tests.mill.growing import Growing
from tests.mill.scripted import (
    Milled,
    ScriptedEngine,
    answer,
    is_prompt,
    lines,
    once,
    prompts,
    slowly,
    stop_after,
)

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_every_prompt_is_answered_once_and_journaled(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(50), "b": prompts(7)})
    engine = ScriptedEngine()
    assert run.run(engine) is Ending.DONE
    assert len(engine.requests) == 57 and engine.most_running == 4
    for name, count in (("a", 50), ("b", 7)):
        tally = run.standing(name).tally()
        assert (tally.counting, tally.owed, tally.adds_up()) == (count, 0, True)
    first = next(rows(run.folder("a"), run.standing("a")))
    assert first.input_ids == [1, 5, 6, 11, 12, 2] and first.loss_mask == [0, 0, 0, 1, 1, 1]


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})
    run.run(ScriptedEngine(slowly), during=lambda loop: stop_after(loop, 5))
    done = run.standing().tally().counting
    assert 5 <= done < 20
    engine = ScriptedEngine()
    assert run.run(engine) is Ending.DONE
    assert len(engine.requests) == 20 - done


def test_a_line_that_a_kill_left_without_its_newline_is_not_asked_for_again(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(3)})
    assert run.run(ScriptedEngine()) is Ending.DONE
    journal = run.folder("a").journal
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-1])
    engine = ScriptedEngine()
    assert run.run(engine) is Ending.DONE and not engine.requests
    assert journal.read_bytes() == whole and run.standing().strays == 0


class Killable(ScriptedEngine):
    """Notes with every call what a kill at its very beginning would leave of how far was sent."""

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self._mark = mark
        self.found: list[int] = []

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        self.found.append(SentMark(self._mark).before)
        return await super().generate(request, on_ids)


def test_no_call_begins_before_the_mark_says_that_it_was_sent(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})
    engine = Killable(run.folder("a").sent)
    assert run.run(engine) is Ending.DONE
    assert all(before > number for number, before in enumerate(engine.found)) and engine.found[-1] == 20


def test_another_engine_does_the_work_of_a_paused_one(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})
    refusing = ScriptedEngine(lambda _: SetupFault("bad: 404"), name="bad")
    assert run.run(refusing, ScriptedEngine(name="good")) is Ending.DONE
    assert run.standing().tally().counting == 20


def test_a_prompt_longer_than_the_context_is_never_sent(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": [*prompts(3), [1] * 40]})
    engine = ScriptedEngine(context=32)
    assert run.run(engine) is Ending.DONE
    (failure,) = read_failures(run.folder("a").errors)
    assert (failure.position, failure.kind) == (3, "too_long")
    assert failure.reason == "the prompt has 40 tokens, which leave no room for an answer; the engine takes 32"
    assert len(engine.requests) == 3


def test_the_context_bounds_the_limit_and_the_journal_says_so(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": [[1] * 30, [2]]})
    engine = ScriptedEngine(lambda r: answer(r, 100), context=32)
    assert run.run(engine) is Ending.DONE
    assert sorted(r.limit for r in engine.requests) == [2, 31]
    assert run.loop and run.loop.clamped == 2
    assert run.standing().finishes == {"length": 2}


def test_a_prompt_that_fits_one_engine_only_goes_there(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": [[n + 1] * (40 if n % 3 == 0 else 2) for n in range(12)]})
    small, large = ScriptedEngine(name="small", context=32), ScriptedEngine(name="large", context=64)
    assert run.run(small, large, concurrency=1) is Ending.DONE
    assert run.standing().tally().counting == 12
    assert all(len(r.prompt_ids) < 32 for r in small.requests)


def test_an_interrupt_lets_what_is_in_flight_finish(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})

    async def interrupt(loop: Loop) -> None:
        await asyncio.sleep(0.02)
        loop.stop(Ending.INTERRUPTED)

    engine = ScriptedEngine(slowly)
    assert run.run(engine, during=interrupt, limits=Limits(drain=5)) is Ending.INTERRUPTED
    assert len(engine.requests) == run.standing().tally().counting == 4


def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})

    async def never(request: Request) -> Reply:
        await asyncio.sleep(60)
        return answer(request)

    async def interrupt(loop: Loop) -> None:
        await asyncio.sleep(0.02)
        loop.stop(Ending.INTERRUPTED)
        await asyncio.sleep(0.02)
        loop.stop(Ending.INTERRUPTED)

    assert run.run(ScriptedEngine(never), during=interrupt, limits=Limits(drain=60)) is Ending.INTERRUPTED
    assert run.standing().tally().owed == 20


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_stops_the_run_and_the_next_start_completes_it(tmp_path: Path, code: int) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})

    def break_disk(loop: Loop) -> None:
        disk = ForgetfulDisk()
        journal = loop.streams[0].journal
        journal._files = disk
        journal._fd = disk.open_append(journal.path)
        disk.fail_write_after, disk.fail_fsync = (0, False) if code == errno.ENOSPC else (None, True)

    assert run.run(ScriptedEngine(), prepare=break_disk) is Ending.FAILED
    assert run.loop and run.loop.error and "raw_responses.jsonl: cannot be" in run.loop.error.message
    assert run.standing().tally().owed == 20
    assert run.run(ScriptedEngine()) is Ending.DONE
    assert run.standing().tally().counting == 20


def test_a_budget_is_filled_by_the_order_and_not_by_the_quickest(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(400)})
    run.datasets["a"] = Dataset(name="a", source="x", budget=1000)

    async def long_ones_are_slow(request: Request) -> Reply:
        length = 30 if request.prompt_ids[0] % 2 else 3
        await asyncio.sleep(length / 10_000)
        return answer(request, length)

    engine = ScriptedEngine(long_ones_are_slow)
    assert run.run(engine, concurrency=16) is Ending.DONE
    stand = run.standing()
    tally = stand.tally()
    lengths = [stand.tokens(position) for position, _ in stand.counting()]
    assert sum(lengths) >= 1000 > sum(lengths[:-1]) and tally.owed == 0 and tally.adds_up()
    assert abs(sum(n == 30 for n in lengths) - len(lengths) / 2) <= 1
    assert tally.surplus < 40 and len(engine.requests) < 120


def test_a_raised_budget_goes_on_and_a_lowered_one_moves_the_cut(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(100)})
    for budget, rows_ in ((30, 10), (90, 30), (30, 10)):
        run.datasets["a"] = Dataset(name="a", source="x", budget=budget)
        assert run.run(ScriptedEngine(), concurrency=1) is Ending.DONE
        assert run.standing().tally().counting == rows_


def test_a_budget_may_count_the_prompts_too(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(100)})
    for counts, rows_ in (("all", 10), ("generated", 20), ("all", 10)):
        run.datasets["a"] = Dataset(name="a", source="x", budget=60, budget_counts=counts)
        assert run.run(ScriptedEngine(), concurrency=1) is Ending.DONE
        tally = run.standing().tally()
        assert (tally.counting, tally.counting_tokens, tally.owed) == (rows_, 60, 0)
        assert run.loop and run.loop.streams[0].counted == (2 if counts == "all" else 1) * run.loop.streams[0].tokens


def test_an_answer_that_is_asked_again_is_forecast_from_its_beginning(tmp_path: Path) -> None:
    """One call hangs and then fails; its dataset goes on as if nothing had been there, and ends at the budget."""
    run = Milled(tmp_path, {"a": prompts(200)})
    run.datasets["a"] = Dataset(name="a", source="x", budget=300)
    hung = [1]

    async def behave(request: Request) -> Reply:
        if is_prompt(2)(request) and hung:
            hung.clear()
            await asyncio.sleep(0.1)
            raise TransportFault("scripted: reset")
        await asyncio.sleep(0.001)
        return answer(request, 10)

    assert run.run(ScriptedEngine(behave), concurrency=4) is Ending.DONE
    tally = run.standing().tally()
    assert tally.counting_tokens == 300 and tally.owed == 0 and tally.surplus <= 4


def test_lanes_have_their_own_caps_and_none_starves(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    other = Milled(tmp_path, {"b": prompts(30, 100)}, lane="long")
    run.datasets |= other.datasets
    run.lanes = {
        "short": Lane(max_new_tokens=8, concurrency=6),
        "long": Lane(max_new_tokens=100, concurrency=2),
    }
    running = {"short": 0, "long": 0}
    most = {"short": 0, "long": 0}

    async def count(request: Request) -> Reply:
        lane = "long" if request.prompt_ids[0] > 100 else "short"
        running[lane] += 1
        most[lane] = max(most[lane], running[lane])
        await asyncio.sleep(0.005)
        running[lane] -= 1
        return answer(request)

    engine = ScriptedEngine(count)
    assert run.run(engine, concurrency=4) is Ending.DONE
    assert most == {"short": 3, "long": 2} or most == {"short": 2, "long": 2}
    assert {r.limit for r in engine.requests} == {8, 100}
    assert {r.prompt_ids[0] > 100 for r in engine.requests[:6]} == {True, False}


def test_a_fault_of_our_own_ends_the_run_with_its_traceback(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(5)})

    def broken(request: Request) -> Reply:
        raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        run.run(ScriptedEngine(broken))


def test_a_fault_of_our_own_in_the_loop_keeps_what_is_in_flight(tmp_path: Path) -> None:
    run, engine = Milled(tmp_path, {"a": prompts(8)}), Growing()

    def break_it(loop: Loop) -> None:
        def broken() -> None:
            if engine.grown >= 8:
                raise KeyError("a bug")

        loop._check_progress = broken  # type: ignore[method-assign]

    with pytest.raises(KeyError, match="a bug"):
        run.run(engine, prepare=break_it)
    assert any(line.get("partial") for line in lines(run))


def test_a_file_that_cannot_be_read_ends_the_run_with_its_message(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})

    def break_it(loop: Loop) -> None:
        def at(position: int) -> None:
            raise StorageError(f"prompts.jsonl:{position + 1}: is not a prompt")

        loop.streams[0]._heads.at = at  # type: ignore[method-assign, assignment]

    assert run.run(ScriptedEngine(), prepare=break_it) is Ending.FAILED
    assert run.loop and run.loop.error and run.loop.error.message == "prompts.jsonl:1: is not a prompt"


def test_a_fault_in_the_load_samples_is_told_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "_EVERY", 0.001)
    run = Milled(tmp_path, {"a": prompts(40)})

    class Odd(ScriptedEngine):
        samples = 0

        async def load(self) -> Load:
            self.samples += 1
            raise TypeError("a bug")

    engine = Odd(slowly)
    assert run.run(engine) is Ending.DONE
    assert engine.samples > 2 and run.standing().tally().counting == 40
    ((_, subject, message),) = [what for what in run.told if what[0] == "fault"]
    assert subject == "scripted"
    assert message.startswith("its load could not be sampled: TypeError: a bug (test_loop.py:")
    assert message.endswith("; the run goes on")


def test_a_fault_in_the_writer_ends_the_run(tmp_path: Path) -> None:
    """Nothing would ever be durable again, and the run would wait for it for ever."""
    run = Milled(tmp_path, {"a": prompts(5)})

    def break_it(loop: Loop) -> None:
        def broken(completion: object) -> None:
            raise KeyError("a bug")

        loop.streams[0].answered = broken  # type: ignore[method-assign]

    with pytest.raises(KeyError, match="a bug"):
        run.run(ScriptedEngine(), prepare=break_it)


def test_a_fault_in_a_probe_is_told_once_and_the_engine_is_probed_again(tmp_path: Path) -> None:
    class Odd(ScriptedEngine):
        probes = 0

        async def identify(self) -> Identity:
            self.probes += 1
            if self.probes < 4:
                raise TypeError("a bug")
            return await super().identify()

    run, engine = Milled(tmp_path, {"a": prompts(5)}), Odd(once(TransportFault("reset")))
    assert run.run(engine, limits=Limits(patience=20, drain=0.2)) is Ending.DONE
    assert [what for what, *_ in run.told].count("fault") == 1


def test_every_request_carries_everything_that_shapes_its_answer(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(2)})
    engine = ScriptedEngine()
    run.run(engine)
    assert all(r.stop_ids == (2,) and r.limit == 64 and r.sampling.top_p == 1.0 for r in engine.requests)
    assert len({r.tag for r in engine.requests}) == 2


def test_a_stop_that_finds_the_last_answers_in_flight_ends_a_whole_run(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(4)})
    out = asyncio.Event()

    async def after_the_stop(request: Request) -> Reply:
        if not is_prompt(0)(request):
            return answer(request)
        await out.wait()
        return answer(request)

    async def stop(loop: Loop) -> None:
        await stop_after(loop, 3)
        out.set()

    assert run.run(ScriptedEngine(after_the_stop), concurrency=4, during=stop) is Ending.DONE
    assert run.standing().tally().owed == 0


def test_a_long_prompt_goes_to_its_own_lane(tmp_path: Path) -> None:
    prompts = [[10 + n] * (6 if n % 3 == 0 else 2) for n in range(30)]
    milled = Milled(tmp_path, {"a": prompts})
    milled.lanes = {"short": Lane(max_new_tokens=8), "long": Lane(max_new_tokens=32, concurrency=1)}
    milled.long_limit = 32
    milled.datasets["a"] = Dataset(name="a", source="x", long_prompts=LongPrompts(over=5, lane="long"))
    longs = most = 0

    async def slowly(request: Request) -> Reply:
        nonlocal longs, most
        long = len(request.prompt_ids) > 5
        assert request.limit == (32 if long else 8)
        longs += long
        most = max(most, longs)
        await asyncio.sleep(0.002)
        longs -= long
        return answer(request)

    engine = ScriptedEngine(slowly)
    assert milled.run(engine, concurrency=6) is Ending.DONE
    assert milled.standing().tally().counting == 30
    assert most == 1 and engine.most_running > 1
    assert [r.prompt_ids for r in engine.requests] == prompts  # the order stays


def test_two_starts_never_use_one_tag(tmp_path: Path) -> None:
    """A server that notices late that a killed start has gone ends that start's calls by their tags."""
    engines = [ScriptedEngine(), ScriptedEngine()]
    for number, engine in enumerate(engines):
        Milled(tmp_path / str(number), {"a": prompts(3)}).run(engine)
    tags = [request.tag for engine in engines for request in engine.requests]
    assert len(set(tags)) == 6


def test_a_paused_loop_sends_nothing_new_and_lets_what_is_in_flight_end(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})
    engine = Growing()

    async def pause(loop: Loop) -> None:
        while engine.grown < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        loop.pause(True)
        sent = len(engine.requests)
        while engine.running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(engine.requests) == sent == 4
        loop.pause(False)

    assert run.run(engine, during=pause) is Ending.DONE
    assert run.standing().tally().counting == 20


def test_a_lane_s_cap_changes_while_it_runs(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    engine = Growing()

    async def change(loop: Loop) -> None:
        while engine.grown < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        loop.set_cap("short", 1)
        while engine.running > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        engine.most_running = 1
        await asyncio.sleep(0.2)
        assert engine.most_running == 1
        loop.set_cap("short", "auto")

    assert run.run(engine, during=change) is Ending.DONE
    assert engine.most_running == 4
