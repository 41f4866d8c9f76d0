import asyncio
import errno
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.engines.protocol import Identity, Load, Reply, Request
from draftmill.errors import (
    CapacityFault,
    EngineError,
    PromptFault,
    ReplyFault,
    ServerError,
    SetupFault,
    StorageError,
    TransportFault,
)
from draftmill.ledger.rows import rows
from draftmill.ledger.standing import read_failures
from draftmill.mill import load as loads
from draftmill.mill import seat as seats
from draftmill.mill import work
from draftmill.mill.call import redraw_seed
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.recipe import Dataset, Lane, LongPrompts, Sampling
from draftmill.records import Finish
from tests.journal.disk import ForgetfulDisk
from tests.mill.scripted import STOP, Milled, ScriptedEngine, answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of a real run, a hundred times shorter."""
    monkeypatch.setattr(work, "_FIRST_DELAY", 0.005)
    monkeypatch.setattr(seats, "_PROBE_EVERY", (0.002, 0.01, 0.02))
    monkeypatch.setattr(seats, "_REFUSAL_PAUSE", 0.01)


def prompts(count: int, start: int = 0) -> list[list[int]]:
    return [[n + 1, 5, 6] for n in range(start, start + count)]


def once(fault: EngineError, times: int = 1, when: Callable[[Request], bool] = lambda _: True):  # type: ignore[no-untyped-def]
    """A behaviour that fails the first ``times`` fitting requests and answers every other."""
    left = [times]

    def behave(request: Request) -> Reply | EngineError:
        if left[0] and when(request):
            left[0] -= 1
            return fault
        return answer(request)

    return behave


def is_prompt(number: int) -> Callable[[Request], bool]:
    return lambda request: request.prompt_ids[0] == number + 1


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


async def slowly(request: Request) -> Reply:
    await asyncio.sleep(0.05)
    return answer(request)


async def stop_after(loop: Loop, answers: int) -> None:
    while loop.streams[0].completed < answers:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    loop.stop(Ending.INTERRUPTED)


def test_a_full_server_gets_less_at_once_and_no_prompt_an_attempt(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    engine = ScriptedEngine(once(CapacityFault("scripted: 503 queue full"), 6))
    assert run.run(engine, concurrency=8) is Ending.DONE
    assert run.standing().tally().counting == 30 and not list(read_failures(run.folder("a").errors))
    assert "cap" in run.kinds()


def test_a_reset_is_retried(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(10)})
    assert run.run(ScriptedEngine(once(TransportFault("scripted: reset"), 3))) is Ending.DONE
    assert run.standing().tally().counting == 10
    assert "lost" not in run.kinds()


def test_a_prompt_s_own_fault_is_an_error_row_at_once(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(10)})
    engine = ScriptedEngine(once(PromptFault("scripted: 400 too long"), when=is_prompt(4)))
    assert run.run(engine) is Ending.DONE
    (failure,) = read_failures(run.folder("a").errors)
    assert (failure.position, failure.kind, failure.attempts) == (4, "prompt", 1)
    assert failure.where == "a.jsonl:5" and failure.reason == "scripted: 400 too long"
    tally = run.standing().tally()
    assert (tally.counting, tally.error, tally.owed) == (9, 1, 0)


def test_a_refused_key_stops_the_run_and_blames_no_prompt(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(10)})
    engine = ScriptedEngine(lambda _: SetupFault("scripted: 401 the key is refused"))
    assert run.run(engine) is Ending.FAILED
    assert run.loop and run.loop.error and "paused: scripted: 401 the key is refused" in run.loop.error.message
    assert run.standing().tally().owed == 10 and not list(read_failures(run.folder("a").errors))


def test_another_engine_does_the_work_of_a_paused_one(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})
    refusing = ScriptedEngine(lambda _: SetupFault("bad: 404"), name="bad")
    assert run.run(refusing, ScriptedEngine(name="good")) is Ending.DONE
    assert run.standing().tally().counting == 20


def test_an_engine_that_stays_away_ends_the_run_after_the_patience(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(10)})
    engine = ScriptedEngine()
    gone = TransportFault("scripted: refused")
    calls = itertools.count(1)

    def die_at_the_fourth(request: Request) -> Reply | EngineError:
        if next(calls) > 3:
            engine.alive = gone
            return gone
        return answer(request)

    engine.behaviour = die_at_the_fourth
    assert run.run(engine, limits=Limits(patience=0.1)) is Ending.FAILED
    assert run.loop and run.loop.error and "scripted is lost: scripted: refused" in run.loop.error.message
    tally = run.standing().tally()
    assert tally.counting >= 1 and tally.counting + tally.owed == 10 and tally.error == 0


class KeptServer:
    """A keeper whose server is away for a while, or for good."""

    def __init__(self, error: ServerError | None = None) -> None:
        self.away = False
        self.error = error

    def coming(self) -> bool:
        return self.away and self.error is None

    def lost(self) -> ServerError | None:
        return self.error if self.away else None


def test_the_patience_waits_for_a_server_that_is_started_again(tmp_path: Path) -> None:
    run, engine, keeper = Milled(tmp_path, {"a": prompts(20)}), ScriptedEngine(), KeptServer()
    calls = itertools.count(1)

    def come_back() -> None:
        engine.alive, keeper.away = None, False

    def behave(request: Request) -> Reply | EngineError:
        if next(calls) == 5:
            engine.alive, keeper.away = TransportFault("scripted: gone"), True
            asyncio.get_running_loop().call_later(1.5, come_back)  # far beyond the patience
        return engine.alive or answer(request)

    engine.behaviour = behave
    assert run.run(engine, limits=Limits(patience=0.9, keeper=keeper)) is Ending.DONE
    assert run.standing().tally().counting == 20


def test_a_server_that_is_given_up_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    run, engine = Milled(tmp_path, {"a": prompts(20)}), ScriptedEngine()
    keeper = KeptServer(ServerError("server 0: gpu_memory: CUDA out of memory", "use more GPUs"))
    calls = itertools.count(1)

    def die(request: Request) -> Reply | EngineError:
        if next(calls) == 5:
            engine.alive, keeper.away = TransportFault("scripted: gone"), True
        return engine.alive or answer(request)

    engine.behaviour = die
    assert run.run(engine, limits=Limits(patience=600, keeper=keeper)) is Ending.FAILED
    assert run.loop and run.loop.error is keeper.error
    tally = run.standing().tally()
    assert tally.counting >= 1 and tally.counting + tally.owed == 20 and tally.error == 0


def test_an_engine_that_comes_back_is_used_again(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(40)})
    engine = ScriptedEngine()
    calls = itertools.count(1)

    def behave(request: Request) -> Reply | EngineError:
        if next(calls) == 10:
            engine.alive = TransportFault("scripted: gone")
            asyncio.get_running_loop().call_later(0.1, lambda: setattr(engine, "alive", None))
        return engine.alive or answer(request)

    engine.behaviour = behave
    assert run.run(engine, limits=Limits(patience=10)) is Ending.DONE
    assert run.standing().tally().counting == 40
    assert [k for k in run.kinds() if k in ("lost", "back")] == ["lost", "back"]


def wrong(request: Request) -> Reply:
    return msgspec.structs.replace(answer(request), prompt_tokens=99)


def test_a_reply_that_cannot_be_believed_is_set_aside_and_asked_again(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(10)})
    left = [1]

    def behave(request: Request) -> Reply:
        if is_prompt(2)(request) and left[0]:
            left[0] = 0
            return wrong(request)
        return answer(request)

    assert run.run(ScriptedEngine(behave)) is Ending.DONE
    evidence = msgspec.json.decode(run.folder("a").suspects.read_bytes())
    assert evidence["position"] == 2 and evidence["reply"]["prompt_tokens"] == 99
    assert "99 prompt tokens, 3 were sent" in evidence["reason"]
    assert run.standing().tally().counting == 10


def test_a_second_one_stops_the_run_and_none_reaches_the_journal(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(10)})
    assert run.run(ScriptedEngine(lambda r: wrong(r) if r.prompt_ids[0] % 2 else answer(r))) is Ending.FAILED
    assert run.loop and run.loop.error and "a second reply cannot be believed" in run.loop.error.message
    stand = run.standing()
    assert all(row.prompt_tokens == 3 for row in rows(run.folder("a"), stand))
    assert stand.tally().owed >= 5


@pytest.mark.parametrize("fault", [ReplyFault("scripted: NaN"), TransportFault("scripted: torn JSON")])
def test_faults_of_a_reply_found_by_the_client_take_their_path(tmp_path: Path, fault: EngineError) -> None:
    run = Milled(tmp_path, {"a": prompts(5)})
    assert run.run(ScriptedEngine(once(fault))) is Ending.DONE
    assert run.standing().tally().counting == 5
    assert run.folder("a").suspects.exists() == isinstance(fault, ReplyFault)


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


def test_a_refused_rendering_is_an_error_row(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(3)})
    path = run.folder("a").prompts
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    lines[1] |= {"prompt_ids": [], "fault": "the chat template refuses this conversation: roles must alternate"}
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert run.run(ScriptedEngine()) is Ending.DONE
    (failure,) = read_failures(run.folder("a").errors)
    assert failure.kind == "render" and "roles must alternate" in failure.reason


def test_too_many_errors_stop_it(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(200)})
    engine = ScriptedEngine(lambda _: PromptFault("scripted: no"))
    assert run.run(engine, limits=Limits(max_errors=3)) is Ending.ERRORS
    assert 3 <= run.standing().tally().error < 50


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


def test_finish_reasons_are_journaled_as_the_server_gave_them(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(4)})
    run.run(ScriptedEngine(lambda r: answer(r, 100 if r.prompt_ids[0] % 2 else 3)))
    reasons = {row.position: row.finish_reason for row in rows(run.folder("a"), run.standing())}
    assert reasons == {0: Finish.LENGTH, 1: Finish.STOP, 2: Finish.LENGTH, 3: Finish.STOP}


class Growing(ScriptedEngine):
    """Answers of 12 ids that grow by one every 10 ms, told as a stream would; an abort gives what is there."""

    WHOLE = 12

    def __init__(self, **identity: int) -> None:
        super().__init__(**identity)
        self.gives_beginnings = True
        self.grown = 0
        self.stands_at = 1 << 30
        self.freed = asyncio.Event()
        self._stops: dict[str, asyncio.Event] = {}
        self.behaviour = self._grow

    async def abort(self, tag: str) -> bool:
        if tag in self._stops:
            self._stops[tag].set()
        return self.gives_beginnings

    async def _grow(self, request: Request) -> Reply:
        stop = self._stops.setdefault(request.tag, asyncio.Event())
        told = self.listeners[request.tag]
        start = len(request.prompt_ids) - 3  # what is there of the answer already
        ids: list[int] = []
        for number in range(start, self.WHOLE):
            await asyncio.sleep(0.01)
            if self.grown >= self.stands_at:
                await self.freed.wait()
            ids = [*ids, STOP if number == self.WHOLE - 1 else 100 + number]
            self.grown += 1
            if told:
                told(ids)
            if stop.is_set():
                return Reply(ids, len(request.prompt_ids), len(ids), Finish.ABORT)
        return Reply(ids, len(request.prompt_ids), len(ids), Finish.STOP, STOP)


WHOLE = [*range(100, 111), STOP]


def lines(run: Milled) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in run.folder("a").journal.read_bytes().splitlines()]


async def interrupt_at(loop: Loop, engine: Growing, grown: int) -> None:
    """Interrupt once the engine has generated so many ids in all."""
    while engine.grown < grown:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    loop.stop(Ending.INTERRUPTED)


def test_a_graceful_stop_keeps_beginnings_and_the_next_start_continues_them(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(6)})
    limits = Limits(drain=5, checkpoint=None)
    first = Growing()
    assert run.run(first, limits=limits, during=lambda loop: interrupt_at(loop, first, 12)) is Ending.INTERRUPTED
    pieces = lines(run)
    assert len(pieces) == 4 and all(p["partial"] and p["finish_reason"] == "abort" for p in pieces)
    assert all(p["output_ids"] == WHOLE[: len(p["output_ids"])] for p in pieces)
    assert run.standing().tally().owed == 6
    engine = Growing()
    assert run.run(engine) is Ending.DONE
    begun = [r for r in engine.requests if len(r.prompt_ids) > 3]
    assert len(begun) == 4 and all(r.limit == 64 - (len(r.prompt_ids) - 3) for r in begun)
    stand = run.standing()
    assert (stand.tally().counting, stand.continued, stand.redrawn) == (6, 4, 0)
    assert all(row.input_ids[3:] == WHOLE and row.prompt_tokens == 3 for row in rows(run.folder("a"), stand))


def test_checkpoints_hold_new_ids_only_and_a_cancelled_call_loses_nothing_heard(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(1)})
    limits = Limits(drain=0, checkpoint=0.025)
    engine = Growing()
    engine.gives_beginnings = False

    async def twice(loop: Loop) -> None:
        await interrupt_at(loop, engine, 7)
        loop.stop(Ending.INTERRUPTED)

    assert run.run(engine, limits=limits, during=twice) is Ending.INTERRUPTED
    pieces = lines(run)
    assert len(pieces) >= 2 and [p.get("continued", 0) for p in pieces] == [
        sum(len(q["output_ids"]) for q in pieces[:n]) for n in range(len(pieces))
    ]
    heard = [i for p in pieces for i in p["output_ids"]]
    assert heard == WHOLE[: len(heard)] and len(heard) >= 5
    run.run(Growing())
    (row,) = rows(run.folder("a"), run.standing())
    assert row.input_ids[3:] == WHOLE and lines(run)[-1]["continued"] == len(heard)


def test_an_answer_goes_on_at_another_engine_and_the_first_is_told_to_stop(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(1)})
    failing, good = Growing(name="failing"), Growing(name="good")  # type: ignore[arg-type]
    grow = failing.behaviour

    async def die(request: Request) -> Reply:
        failing.alive = TransportFault("failing: gone")
        task = asyncio.ensure_future(grow(request))  # type: ignore[arg-type]
        while failing.grown < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        task.cancel()
        raise TransportFault("failing: cut off")

    failing.behaviour = die
    assert run.run(failing, good, limits=Limits(checkpoint=60)) is Ending.DONE
    (row,) = rows(run.folder("a"), run.standing())
    assert row.input_ids[3:] == WHOLE
    assert len(good.requests) == 1 and len(good.requests[0].prompt_ids) > 3
    assert failing._stops[failing.requests[0].tag].is_set()


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


def test_what_was_in_flight_above_all_that_is_journaled_is_drawn_again_too(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(5)})

    async def later_hang(request: Request) -> Reply:
        await asyncio.sleep(0 if is_prompt(0)(request) else 60)
        return answer(request)

    run.run(ScriptedEngine(later_hang), concurrency=3, limits=Limits(drain=0), during=lambda loop: stop_after(loop, 1))
    engine = ScriptedEngine()
    assert run.run(engine) is Ending.DONE
    sent = {request.prompt_ids[0] for request in engine.requests if request.seed is not None}
    marked = [line["position"] for line in lines(run) if line.get("redrawn")]
    assert marked == [1, 2, 3] and len(sent) == 3  # the place of the first was taken by the fourth


def test_what_must_be_drawn_again_has_a_fixed_seed_and_is_marked(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(5)})

    async def first_hangs(request: Request) -> Reply:
        await asyncio.sleep(60 if is_prompt(0)(request) else 0)
        return answer(request)

    run.run(ScriptedEngine(first_hangs), limits=Limits(drain=0), during=lambda loop: stop_after(loop, 4))
    engine = ScriptedEngine()
    assert run.run(engine) is Ending.DONE
    (request,) = engine.requests
    assert request.seed == redraw_seed(0, run.standing().ids[:16].hex(), 0)
    (line,) = [line for line in lines(run) if line.get("redrawn")]
    assert line["position"] == 0 and run.standing().redrawn == 1


def test_an_answer_lost_with_its_engine_is_drawn_again_with_the_seed_and_the_mark(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(3)})
    engine = ScriptedEngine(once(TransportFault("scripted: reset"), when=is_prompt(1)))
    assert run.run(engine) is Ending.DONE
    first, again = [r for r in engine.requests if is_prompt(1)(r)]
    assert first.seed is None and again.seed == redraw_seed(0, lines(run)[-1]["id"], 0)
    assert [line["position"] for line in lines(run) if line.get("redrawn")] == [1]


def test_the_pieces_of_a_reply_that_is_set_aside_are_taken_back(tmp_path: Path) -> None:
    """A kill in the middle of the next answer must not leave the beginning of the first with the middle of that one."""
    run = Milled(tmp_path, {"a": prompts(1)})
    engine = Growing()
    grow = engine.behaviour

    async def first_is_wrong(request: Request) -> Reply:
        if len(engine.requests) > 1:
            return await grow(request)  # type: ignore[misc]
        engine.listeners[request.tag]([7, 7, 7, 7])  # type: ignore[misc]
        return wrong(request)

    engine.behaviour = first_is_wrong
    limits = Limits(drain=5, checkpoint=0.0)
    assert run.run(engine, limits=limits, during=lambda loop: interrupt_at(loop, engine, 6)) is Ending.INTERRUPTED
    assert lines(run)[0]["output_ids"] == [7, 7, 7, 7] and lines(run)[1]["output_ids"] == []
    assert run.run(Growing()) is Ending.DONE
    (row,) = rows(run.folder("a"), run.standing())
    assert row.input_ids[3:] == WHOLE and lines(run)[-1]["continued"] >= 5


def test_penalties_on_generated_ids_are_never_continued(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(2)})
    run.sampling = Sampling(presence_penalty=0.5)
    first = Growing()
    run.run(first, limits=Limits(drain=0), during=lambda loop: interrupt_at(loop, first, 6))
    assert not lines(run)
    engine = Growing()
    assert run.run(engine) is Ending.DONE
    assert all(len(r.prompt_ids) == 3 for r in engine.requests)


def test_a_limit_below_what_is_there_already_ends_the_answer_there(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(1)})
    limits = Limits(drain=5, checkpoint=None)
    first = Growing()
    run.run(first, limits=limits, during=lambda loop: interrupt_at(loop, first, 6))
    begun = len(lines(run)[0]["output_ids"])
    run.lanes = {"short": Lane(max_new_tokens=2)}
    engine = Growing()
    assert run.run(engine) is Ending.DONE and not engine.requests
    last = lines(run)[-1]
    assert last["output_ids"] == WHOLE[:begun] and last["finish_reason"] == "length"


def test_an_answer_that_was_ended_before_its_first_id_is_not_called_redrawn(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(3)})
    queued = Growing()

    async def first_waits(request: Request) -> Reply:
        if not is_prompt(0)(request):
            return answer(request)
        stop = queued._stops.setdefault(request.tag, asyncio.Event())
        await stop.wait()
        return Reply([], len(request.prompt_ids), 0, Finish.ABORT)

    queued.behaviour = first_waits
    run.run(queued, limits=Limits(drain=5), during=lambda loop: stop_after(loop, 2))
    assert [(p["position"], p["output_ids"]) for p in lines(run) if p.get("partial")] == [(0, [])]
    engine = ScriptedEngine()
    assert run.run(engine) is Ending.DONE
    assert engine.requests[0].seed is None and run.standing().redrawn == 0


@pytest.mark.parametrize("fault", [TransportFault("scripted: 500"), CapacityFault("scripted: 429")])
def test_an_engine_that_fails_everything_blames_no_prompt_and_ends_after_the_patience(
    tmp_path: Path, fault: EngineError
) -> None:
    """Its probe answers all the time."""
    run = Milled(tmp_path, {"a": prompts(60)})
    engine = ScriptedEngine(lambda _: fault)
    assert run.run(engine, limits=Limits(patience=0.4)) is Ending.FAILED
    assert run.loop and run.loop.error and fault.message in run.loop.error.message
    assert run.standing().tally().owed == 60 and not list(read_failures(run.folder("a").errors))
    if isinstance(fault, TransportFault):
        assert any("calls in a row failed, the last: scripted: 500" in message for _, _, message in run.told)
        assert engine.most_running == 4 and engine.running == 0
    else:
        assert run.kinds().count("cap") < 5


def test_an_engine_that_failed_everything_and_recovers_is_used_again(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    engine = ScriptedEngine(once(TransportFault("scripted: 502"), 60))
    assert run.run(engine, limits=Limits(patience=20)) is Ending.DONE
    assert run.standing().tally().counting == 30
    assert [k for k in run.kinds() if k in ("paused", "back")][:2] == ["paused", "back"]


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


def test_an_engine_that_refuses_prompts_one_by_one_is_not_called_broken(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(40)})

    async def refuse(request: Request) -> Reply:
        await asyncio.sleep(0.02)
        raise PromptFault("scripted: too long")

    assert run.run(ScriptedEngine(refuse), limits=Limits(patience=0.05)) is Ending.DONE
    assert run.standing().tally().error == 40


def test_two_starts_never_use_one_tag(tmp_path: Path) -> None:
    """A server that notices late that a killed start has gone ends that start's calls by their tags."""
    engines = [ScriptedEngine(), ScriptedEngine()]
    for number, engine in enumerate(engines):
        Milled(tmp_path / str(number), {"a": prompts(3)}).run(engine)
    tags = [request.tag for engine in engines for request in engine.requests]
    assert len(set(tags)) == 6


def test_a_second_interrupt_does_not_even_wait_for_the_aborts(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(8)})
    engine = Growing()

    async def hangs(tag: str) -> bool:
        await asyncio.sleep(60)
        return True

    engine.abort = hangs  # type: ignore[method-assign]
    engine.WHOLE = 10_000

    async def twice(loop: Loop) -> None:
        await interrupt_at(loop, engine, 20)
        await asyncio.sleep(0.02)
        loop.stop(Ending.INTERRUPTED)

    assert run.run(engine, during=twice, limits=Limits(drain=60, checkpoint=None)) is Ending.INTERRUPTED
    assert run.standing().tally().owed == 8


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


def stuck(at: int) -> Growing:
    """Stands still from its ``at``-th id on, until it is ``freed``; its health calls answer."""
    engine = Growing()
    engine.stands_at = at
    return engine


def test_what_lies_at_a_server_that_stands_still_goes_on_at_another(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})
    still, good = stuck(12), Growing()
    assert run.run(still, good, limits=Limits(stall=0.3, checkpoint=0.01)) is Ending.DONE
    whole = [line for line in lines(run) if not line.get("partial")]
    assert len(whole) == 20 and all(line["output_ids"] == WHOLE for line in whole)
    assert run.kinds().count("stalled") == 1 and not run.standing().tally().error
    assert any(line.get("continued") for line in whole)


def test_a_server_that_stood_still_is_believed_when_it_generates_again(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(12)})
    still = stuck(12)

    async def free(loop: Loop) -> None:
        while "stalled" not in run.kinds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.2)
        assert len(still.requests) == 5 and still.requests[-1].limit == 1  # one trial, and it waits
        still.freed.set()

    assert run.run(still, limits=Limits(stall=0.3, patience=60), during=free) is Ending.DONE
    assert run.standing().tally().counting == 12 and "back" in run.kinds()


def test_one_that_stays_stuck_ends_the_run_after_the_patience(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(12)})
    assert run.run(stuck(12), limits=Limits(stall=0.2, patience=0.3)) is Ending.FAILED
    assert run.loop and run.loop.error and "no progress for 0 s" in run.loop.error.message
    tally = run.standing().tally()
    assert tally.adds_up() and tally.error == 0


def test_what_a_dead_engine_had_begun_is_marked_when_nothing_of_it_is_known(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(5)})
    assert run.run(ScriptedEngine(once(TransportFault("reset"), when=is_prompt(2)))) is Ending.DONE
    assert [line["position"] for line in lines(run) if line.get("redrawn")] == [2]


def test_a_call_that_is_cancelled_before_it_is_made_is_not_lost(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(20)})

    async def move(loop: Loop) -> None:
        await asyncio.sleep(0.02)
        loop.seats[0].retune(9)
        loop._dispatch()
        for task, call in loop._calls.items():
            call.moves = True
            task.cancel()

    assert run.run(Growing(), during=move) is Ending.DONE
    assert run.standing().tally().counting == 20
