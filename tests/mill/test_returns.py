"""What becomes of replies and of faults."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from draftmill.engines.protocol import Reply, Request
from draftmill.errors import (
    CapacityFault,
    EngineError,
    PromptFault,
    ReplyFault,
    SetupFault,
    TransportFault,
)
from draftmill.ledger.rows import rows
from draftmill.ledger.standing import read_failures
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.records import Finish
from tests.mill.growing import Growing
from tests.mill.scripted import (
    Milled,
    ScriptedEngine,
    answer,
    is_prompt,
    once,
    prompts,
    wrong,
)

pytestmark = pytest.mark.usefixtures("short_pauses")


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
    assert run.loop and run.loop.error and "paused: 401 the key is refused" in run.loop.error.message
    assert run.standing().tally().owed == 10 and not list(read_failures(run.folder("a").errors))


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


def test_finish_reasons_are_journaled_as_the_server_gave_them(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(4)})
    run.run(ScriptedEngine(lambda r: answer(r, 100 if r.prompt_ids[0] % 2 else 3)))
    reasons = {row.position: row.finish_reason for row in rows(run.folder("a"), run.standing())}
    assert reasons == {0: Finish.LENGTH, 1: Finish.STOP, 2: Finish.LENGTH, 3: Finish.STOP}


def test_an_engine_that_refuses_prompts_one_by_one_is_not_called_broken(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(40)})

    async def refuse(request: Request) -> Reply:
        await asyncio.sleep(0.02)
        raise PromptFault("scripted: too long")

    assert run.run(ScriptedEngine(refuse), limits=Limits(patience=0.05)) is Ending.DONE
    assert run.standing().tally().error == 40


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
