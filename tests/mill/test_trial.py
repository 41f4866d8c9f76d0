"""Which prompts are blamed for the death of an engine."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from draftmill.engines.protocol import Reply, Request
from draftmill.errors import CapacityFault, EngineError, TransportFault
from draftmill.ledger.standing import read_failures
from draftmill.mill.loop import Ending, Limits
from draftmill.mill.trial import WITNESS_TOKENS
from draftmill.mill.work import ALONE_AFTER, GROWTH, TRIALS
from draftmill.recipe import Lane
from draftmill.records import Finish
from tests.mill.scripted import STOP, Milled, ScriptedEngine, answer, prompts

DEATH = TransportFault("scripted: disconnected")
pytestmark = pytest.mark.usefixtures("short_pauses")


def deadly(*numbers: int) -> Callable[[Request], bool]:
    return lambda request: request.prompt_ids[0] - 1 in numbers


class Mortal(ScriptedEngine):
    """Dies of some prompts, and is back at once. ``alone`` says of each call whether nothing was beside it."""

    def __init__(self, kills: Callable[[Request], bool], **identity: int) -> None:
        super().__init__(self._behave, **identity)
        self.kills = kills
        self.alone: list[bool] = []

    async def _behave(self, request: Request) -> Reply:
        beside = self.running - 1
        await asyncio.sleep(0.002)
        self.alone.append(beside == 0 == self.running - 1)
        if self.kills(request):
            raise DEATH
        return answer(request)


def test_a_prompt_that_kills_engines_is_tried_alone_before_it_is_blamed(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    engine = Mortal(deadly(3))
    assert run.run(engine) is Ending.DONE
    (failure,) = read_failures(run.folder("a").errors)
    assert (failure.position, failure.kind, failure.attempts) == (3, "engine_death", ALONE_AFTER + TRIALS)
    trials = [i for i, request in enumerate(engine.requests) if deadly(3)(request)][ALONE_AFTER:]
    assert len(trials) == TRIALS and all(engine.alone[i] for i in trials)
    assert run.standing().tally().counting == 29


def test_between_two_trials_the_engine_is_seen_to_work(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    engine = Mortal(deadly(3))
    run.run(engine)
    tries = [i for i, request in enumerate(engine.requests) if deadly(3)(request)]
    trials = engine.requests[tries[ALONE_AFTER] : tries[-1] + 1]
    assert [deadly(3)(r) for r in trials] == [True, *[False, True] * (TRIALS - 1)]
    witnesses = trials[1::2]
    assert {(r.limit, r.stop_ids) for r in witnesses} == {(WITNESS_TOKENS, (STOP,))}
    assert len(run.folder("a").journal.read_bytes().splitlines()) == 29  # nobody keeps what a witness says


def test_those_that_kill_are_told_from_those_that_were_beside_them(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(40)})
    engine = Mortal(deadly(2, 5, 6))
    beside: set[int] = set()

    async def all_die(request: Request) -> Reply:
        """A death takes everything that is in flight."""
        began = deaths
        reply = await Mortal._behave(engine, request)
        if deaths > began:
            beside.add(request.prompt_ids[0] - 1)
            raise DEATH
        return reply

    deaths = 0

    def kills(request: Request) -> bool:
        nonlocal deaths
        deaths += deadly(2, 5, 6)(request)
        return deadly(2, 5, 6)(request)

    engine.kills = kills
    engine.behaviour = all_die
    assert run.run(engine, concurrency=6) is Ending.DONE
    assert beside - {2, 5, 6}
    assert sorted(f.position for f in read_failures(run.folder("a").errors)) == [2, 5, 6]
    assert run.standing().tally().counting == 37


def test_one_that_is_left_alone_by_earlier_starts_is_blamed_too(tmp_path: Path) -> None:
    """Nothing else is owed that could show that the engine works: an answered prompt is asked again."""
    run = Milled(tmp_path, {"a": prompts(6)})

    async def stop_at_five(loop) -> None:  # type: ignore[no-untyped-def]
        while loop.streams[0].completed < 5:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        loop.stop(Ending.INTERRUPTED)

    async def hangs(request: Request) -> Reply:
        await asyncio.sleep(60 if deadly(2)(request) else 0)
        return answer(request)

    run.run(ScriptedEngine(hangs), limits=Limits(drain=0), during=stop_at_five)
    engine = Mortal(deadly(2))
    assert run.run(engine, limits=Limits(patience=5)) is Ending.DONE
    assert [f.position for f in read_failures(run.folder("a").errors)] == [2]


def test_no_prompt_is_blamed_by_an_engine_that_fails_its_witness_too(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    engine = Mortal(lambda _: len(engine.requests) > 8)
    assert run.run(engine, limits=Limits(patience=0.4)) is Ending.FAILED
    assert not list(read_failures(run.folder("a").errors)) and run.standing().tally().owed >= 20


def test_a_witness_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    engine = Mortal(deadly(3))
    mortal, hung = engine.behaviour, []

    async def hang_once(request: Request) -> Reply:
        if request.limit == WITNESS_TOKENS and not hung:
            hung.append(request)
            await asyncio.sleep(60)
        return await mortal(request)  # type: ignore[misc]

    engine.behaviour = hang_once
    assert run.run(engine, limits=Limits(stall=0.1)) is Ending.DONE
    (failure,) = read_failures(run.folder("a").errors)
    assert hung and failure.position == 3 and failure.attempts > ALONE_AFTER + TRIALS
    assert run.standing().tally().counting == 29


@pytest.mark.parametrize("checkpoint", [1.0, None])
def test_no_prompt_is_blamed_whose_answer_grows(tmp_path: Path, checkpoint: float | None) -> None:
    """An engine that dies after every few tokens, of whatever: the answer goes on from where it was."""
    run, engine = dying(tmp_path, every=GROWTH, length=10 * GROWTH)
    assert run.run(engine, limits=Limits(patience=20, checkpoint=checkpoint)) is Ending.DONE
    assert len(engine.requests) > 10
    assert run.standing().tally().counting == 2 and not list(read_failures(run.folder("a").errors))


def test_one_that_kills_engines_at_its_first_tokens_is_blamed_all_the_same(tmp_path: Path) -> None:
    run, engine = dying(tmp_path, every=1, length=1000)
    assert run.run(engine, limits=Limits(patience=20)) is Ending.DONE
    (failure,) = read_failures(run.folder("a").errors)
    assert (failure.position, failure.attempts) == (1, ALONE_AFTER + TRIALS)


def dying(path: Path, every: int, length: int) -> tuple[Milled, ScriptedEngine]:
    """An engine that dies whenever it has generated so many ids of the second prompt's answer."""
    run = Milled(path, {"a": prompts(2)})
    run.lanes = {"short": Lane(max_new_tokens=2000)}
    engine = ScriptedEngine()

    async def behave(request: Request) -> Reply:
        if deadly(0)(request):
            return answer(request)
        begun = len(request.prompt_ids) - 3
        await asyncio.sleep(0.001)
        if begun + every < length:
            if told := engine.listeners[request.tag]:
                told([100 + (begun + n) % 800 for n in range(every)])
            raise DEATH
        return Reply([STOP], len(request.prompt_ids), 1, Finish.STOP, STOP)

    engine.behaviour = behave
    return run, engine


@pytest.mark.parametrize("refusal", [CapacityFault("scripted: 503 full"), TransportFault("scripted: reset")])
def test_a_trial_that_is_refused_stays_one(tmp_path: Path, refusal: EngineError) -> None:
    run = Milled(tmp_path, {"a": prompts(30)})
    engine = Mortal(deadly(3))
    mortal, refused = engine.behaviour, []

    async def refuse_the_first_trial(request: Request) -> Reply:
        tries = sum(deadly(3)(r) for r in engine.requests)
        if deadly(3)(request) and tries == ALONE_AFTER + 1:
            refused.append(request)
            raise refusal
        return await mortal(request)  # type: ignore[misc]

    engine.behaviour = refuse_the_first_trial
    assert run.run(engine) is Ending.DONE
    (failure,) = read_failures(run.folder("a").errors)
    assert refused and failure.attempts == ALONE_AFTER + TRIALS
    assert run.standing().tally().counting == 29


def test_others_do_not_wait_for_a_trial_that_no_open_engine_could_hold(tmp_path: Path) -> None:
    long = [[4, *[5] * 40]]
    run = Milled(tmp_path, {"a": [*prompts(3), *long, *prompts(60)[4:]]})
    large, small = Mortal(deadly(3), context=64), Mortal(deadly(), context=32)
    deaths = before = 0

    def kills(request: Request) -> bool:
        nonlocal deaths, before
        deaths += deadly(3)(request)
        large.alive = DEATH if deaths >= ALONE_AFTER else None  # it does not come back
        before = before or (deaths >= ALONE_AFTER and len(small.requests))
        return deadly(3)(request)

    large.kills = kills
    assert run.run(large, small, limits=Limits(patience=0.3), concurrency=1) is Ending.FAILED
    assert 0 < before < len(small.requests) - 10
    tally = run.standing().tally()
    assert (tally.counting, tally.owed) == (59, 1)
