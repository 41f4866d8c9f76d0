"""Answers that were interrupted: their beginnings, and what is drawn again."""

import asyncio
from pathlib import Path

import pytest

from draftmill.engines.protocol import Reply, Request
from draftmill.errors import (
    TransportFault,
)
from draftmill.ledger.rows import rows
from draftmill.mill.call import redraw_seed
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.recipe import Lane, Sampling
from draftmill.records import Finish
from tests.mill.growing import WHOLE, Growing, interrupt_at
from tests.mill.scripted import (
    Milled,
    ScriptedEngine,
    answer,
    is_prompt,
    lines,
    once,
    prompts,
    stop_after,
    wrong,
)

pytestmark = pytest.mark.usefixtures("short_pauses")


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


def test_what_a_dead_engine_had_begun_is_marked_when_nothing_of_it_is_known(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(5)})
    assert run.run(ScriptedEngine(once(TransportFault("reset"), when=is_prompt(2)))) is Ending.DONE
    assert [line["position"] for line in lines(run) if line.get("redrawn")] == [2]
