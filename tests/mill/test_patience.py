"""How long a run waits for engines that are away, fail everything or stand still."""

import asyncio
import itertools
from pathlib import Path

import pytest

from draftmill.engines.protocol import Reply, Request
from draftmill.errors import (
    CapacityFault,
    EngineError,
    ServerError,
    TransportFault,
)
from draftmill.ledger.standing import read_failures
from draftmill.mill.loop import Ending, Limits, Loop
from tests.mill.growing import WHOLE, Growing, stuck
from tests.mill.scripted import (
    Milled,
    ScriptedEngine,
    answer,
    lines,
    once,
    prompts,
)

pytestmark = pytest.mark.usefixtures("short_pauses")


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
    assert run.loop and run.loop.error
    assert run.loop.error.message == "no engine takes work: scripted is lost: refused"
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


@pytest.mark.parametrize("fault", [TransportFault("scripted: 500"), CapacityFault("scripted: 429")])
def test_an_engine_that_fails_everything_blames_no_prompt_and_ends_after_the_patience(
    tmp_path: Path, fault: EngineError
) -> None:
    """Its probe answers all the time."""
    run = Milled(tmp_path, {"a": prompts(60)})
    engine = ScriptedEngine(lambda _: fault)
    assert run.run(engine, limits=Limits(patience=0.4)) is Ending.FAILED
    assert run.loop and run.loop.error and fault.message.removeprefix("scripted: ") in run.loop.error.message
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
