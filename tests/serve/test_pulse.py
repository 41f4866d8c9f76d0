"""Whether a server that is ready still works: decisions as a table, and a real server that is stopped."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from draftmill.engines import connect
from draftmill.engines.protocol import Load
from draftmill.recipe import EngineSpec
from draftmill.serve import replica
from draftmill.serve.fleet import Fleet
from draftmill.serve.pulse import Pulse, until_stuck
from draftmill.serve.replica import State
from tests.engines.contract import ask
from tests.serve.test_fleet import events, launch, left, serving, state

IDLE, BUSY = Load(0, 0, 0, 100, work=7.0), Load(4, 9, 80, 100, work=7.0)


def later(load: Load, more: float) -> Load:
    assert load.work is not None
    return Load(load.running, load.queued, load.kv_used, load.kv_total, work=load.work + more)


def test_a_server_whose_figures_stand_still_is_asked_for_a_token_and_then_taken_for_stuck() -> None:
    pulse = Pulse(900.0, 0.0)
    pulse.seen(5.0, BUSY)
    for now in (10.0, 60.0):
        pulse.seen(now, BUSY)
        assert not pulse.doubtful(now)
    pulse.seen(65.0, Load(4, 30, 80, 100, work=7.0))  # a queue that grows is no work
    assert pulse.doubtful(65.0) and not pulse.stuck(904.0) and pulse.stuck(905.0)


def test_one_that_is_busy_with_a_long_prefill_or_idle_is_not() -> None:
    pulse = Pulse(900.0, 0.0)
    for step in range(1, 9):  # a chunk of it every ten minutes, longer than anybody's
        pulse.seen(600.0 * step, later(BUSY, step))
        assert not pulse.stuck(600.0 * step + 590.0)
    pulse = Pulse(900.0, 0.0)
    for minute in range(1, 60):  # idle: it gives a token whenever it is asked
        pulse.seen(60.0 * minute, IDLE)
        assert not pulse.stuck(60.0 * minute)
        pulse.works(60.0 * minute + 1)


def test_one_that_shows_no_figures_that_could_move_is_never_judged() -> None:
    pulse = Pulse(900.0, 0.0)
    for minute in range(1, 60):
        pulse.seen(60.0 * minute, Load(4, 0))
        assert not pulse.stuck(60.0 * minute)


@pytest.mark.embedded
def test_a_server_that_hangs_and_lives_is_started_again_and_one_that_works_is_left_alone(
    small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "until_stuck", lambda spec, stall: until_stuck(spec, 4.0))
    planned = launch(small_model, context=512)

    async def use(fleet: Fleet) -> None:
        engine = await connect(EngineSpec(kind="llamacpp", url=fleet.urls[0]))
        (pid,) = left(planned)
        for _ in range(3):  # idle in between, for longer than it takes to be doubted
            await engine.generate(ask())
            await asyncio.sleep(2.0)
        assert left(planned) == [pid] and fleet.replicas[0].state is State.READY
        os.kill(pid, signal.SIGSTOP)
        await state(fleet, State.DOWN)
        await state(fleet, State.READY)
        assert left(planned) != [pid]
        await engine.generate(ask())
        await engine.close()

    serving(planned, tmp_path, use)
    told = events(tmp_path)
    assert dict(told)["died"].startswith("stuck: no sign of work and no token for 4 s: "), told
    assert [kind for kind, _ in told].count("died") == 1 and json.dumps(told).count("no answer in time") == 1
