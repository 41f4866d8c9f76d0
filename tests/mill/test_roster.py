import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from draftmill.errors import RunError, SetupFault, TransportFault
from draftmill.mill import roster as rosters
from draftmill.mill.loop import Ending, Loop
from draftmill.mill.roster import Roster
from draftmill.mill.seat import Seat
from draftmill.recipe import EMBEDDED, EngineSpec
from tests.mill.growing import WHOLE, Growing
from tests.mill.scripted import Milled, ScriptedEngine, lines, prompts

A, B = EngineSpec(url="http://a:1", concurrency=4), EngineSpec(url="http://b:1", concurrency=4)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rosters, "_AGAIN_SECONDS", 0.02)


class World:
    """Engines by URL, or ``embedded``; an error in an engine's place is what taking it raises."""

    def __init__(self, engines: dict[str, ScriptedEngine | Exception]) -> None:
        self.engines = engines
        self.told: list[tuple[str, str, str]] = []
        self.asked: list[str] = []

    async def take(self, spec: EngineSpec) -> Seat:
        place = spec.url or EMBEDDED
        self.asked.append(place)
        await asyncio.sleep(0)
        engine = self.engines[place]
        if isinstance(engine, Exception):
            raise engine
        return Seat(engine, spec, engine._identity, self.tell)

    def tell(self, kind: str, subject: str, message: str) -> None:
        self.told.append((kind, subject, message))

    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.told]


def test_those_that_do_not_answer_at_the_start_are_left_out_as_long_as_one_does() -> None:
    world = World({A.url or "": ScriptedEngine(), B.url or "": TransportFault("b: nobody listens")})
    roster = Roster([A, B], world.take, world.tell)
    asyncio.run(roster.open())
    told = ("absent", "http://b:1", "the run goes on without it until it answers: b: nobody listens")
    assert len(roster.seats) == 1 and world.told == [told]


@pytest.mark.parametrize("fault", [TransportFault("nobody listens"), RunError("another model")])
def test_the_start_fails_where_none_answers_or_one_may_not_be_used(fault: Exception) -> None:
    answers = ScriptedEngine() if isinstance(fault, RunError) else TransportFault("nor here")
    world = World({A.url or "": fault, B.url or "": answers})
    with pytest.raises(type(fault), match=str(fault)):
        asyncio.run(Roster([A, B], world.take, world.tell).open())


def steer(
    tmp_path: Path, world: World, specs: list[EngineSpec], count: int, during: Callable[[Loop, Roster], Awaitable[None]]
) -> Milled:
    """A run of ``count`` prompts at one engine, with a roster tended beside it."""
    run = Milled(tmp_path, {"a": prompts(count)})
    roster = Roster(specs, world.take, world.tell)

    async def beside(loop: Loop) -> None:
        await roster.open()
        loop.seats = roster.seats
        tending = asyncio.create_task(tend(loop))
        try:
            await during(loop, roster)
            while loop._pending():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        finally:
            tending.cancel()
            await roster.close()

    async def tend(loop: Loop) -> None:
        while True:
            roster.tend(loop)
            await asyncio.sleep(0.005)

    assert run.run(during=beside) is Ending.DONE
    return run


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.002)


def test_an_absent_engine_joins_when_it_answers(tmp_path: Path) -> None:
    late = Growing()
    world = World({A.url or "": Growing(), B.url or "": TransportFault("b: nobody listens")})

    async def during(loop: Loop, roster: Roster) -> None:
        await until(lambda: world.asked.count(B.url or "") >= 3)
        world.engines[B.url or ""] = late

    run = steer(tmp_path, world, [A, B], 60, during)
    assert late.requests and world.kinds().count("absent") == 1
    assert [subject for kind, subject, _ in world.told if kind in ("absent", "joins")] == ["http://b:1"] * 2
    assert run.standing().tally().counting == 60


def test_embedded_engines_are_told_apart() -> None:
    world = World({A.url or "": ScriptedEngine(), EMBEDDED: SetupFault("m.gguf: no such GGUF file")})
    embedded = EngineSpec(kind="embedded")
    asyncio.run(Roster([A, embedded, embedded], world.take, world.tell).open())
    assert [subject for _, subject, _ in world.told] == ["embedded", "embedded-2"]


def test_what_an_engine_has_goes_on_at_the_others_when_it_is_taken_out(tmp_path: Path) -> None:
    leaving, staying = Growing(), Growing()
    world = World({A.url or "": leaving, B.url or "": staying})

    async def during(loop: Loop, roster: Roster) -> None:
        await until(lambda: leaving.grown >= 12)
        roster.want([B])
        await until(lambda: "leaves" in world.kinds())
        sent = len(leaving.requests)
        await until(lambda: len(loop.seats) == 1)
        assert len(leaving.requests) == sent

    run = steer(tmp_path, world, [A, B], 20, during)
    assert ("leaves", A.url, "taken out of the run; what it has goes on at the others") in world.told
    whole = [line for line in lines(run) if not line.get("partial")]
    assert len(whole) == 20 and all(line["output_ids"] == WHOLE for line in whole)
    assert sum(line.get("continued", 0) > 0 for line in whole) == 4
    assert not any(line.get("redrawn") for line in whole)


def test_the_last_engine_leaves_to_no_others(tmp_path: Path) -> None:
    world = World({A.url or "": Growing(), B.url or "": Growing()})

    async def during(loop: Loop, roster: Roster) -> None:
        await until(lambda: bool(loop._calls))
        roster.want([])
        await until(lambda: not loop.seats)
        roster.want([A])

    steer(tmp_path, world, [A, B], 20, during)
    wheres = [message.partition("goes on ")[2] for kind, _, message in world.told if kind == "leaves"]
    assert set(wheres) <= {"at the others", "once an engine is put in"} and wheres[-1] == "once an engine is put in"


def test_calls_of_an_engine_that_gives_no_beginnings_are_let_go_and_drawn_again(tmp_path: Path) -> None:
    async def never(request: object) -> object:
        return await asyncio.sleep(60)

    stuck = ScriptedEngine(never)  # type: ignore[arg-type]
    world = World({A.url or "": stuck, B.url or "": ScriptedEngine()})

    async def during(loop: Loop, roster: Roster) -> None:
        await until(lambda: len(stuck.requests) == 4)
        roster.want([B])

    run = steer(tmp_path, world, [A, B], 20, during)
    assert sum(bool(line.get("redrawn")) for line in lines(run)) == 4
    assert run.standing().tally().counting == 20


def test_another_concurrency_is_followed_without_taking_the_engine_out(tmp_path: Path) -> None:
    engine = Growing()
    world = World({A.url or "": engine})

    async def during(loop: Loop, roster: Roster) -> None:
        await until(lambda: engine.grown >= 4)
        assert engine.most_running == 4
        roster.want([A.model_copy(update={"concurrency": 9})])
        await until(lambda: engine.running == 9)

    steer(tmp_path, world, [A], 40, during)
    assert "leaves" not in world.kinds() and "cap" in world.kinds()


def test_an_engine_of_another_model_is_refused_once_and_the_run_goes_on(tmp_path: Path) -> None:
    world = World({A.url or "": Growing(), B.url or "": RunError("b is another model")})

    async def during(loop: Loop, roster: Roster) -> None:
        roster.want([A, B])
        await until(lambda: "refused" in world.kinds())
        await asyncio.sleep(0.05)

    steer(tmp_path, world, [A], 8, during)
    assert world.asked.count(B.url or "") == 1


def test_an_engine_that_was_taken_out_is_closed_and_may_be_put_in_again(tmp_path: Path) -> None:
    first, again, staying = Growing(), Growing(), Growing()
    world = World({A.url or "": first, B.url or "": staying})

    async def during(loop: Loop, roster: Roster) -> None:
        await until(lambda: first.grown >= 4)
        roster.want([B])
        await until(lambda: first.closed)
        world.engines[A.url or ""] = again
        roster.want([A, B])
        await until(lambda: bool(again.requests))

    steer(tmp_path, world, [A, B], 40, during)
    assert world.kinds().count("leaves") == world.kinds().count("joins") == 1
    assert again.closed and staying.closed


def test_a_fault_of_our_own_about_an_engine_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    leaving, staying = Growing(), Growing()
    world = World({A.url or "": leaving, B.url or "": staying, "http://c:1": KeyError("a bug")})

    async def broken() -> None:
        raise KeyError("another bug")

    leaving.close = broken  # type: ignore[method-assign]

    async def during(loop: Loop, roster: Roster) -> None:
        await until(lambda: leaving.grown >= 4)
        roster.want([B, EngineSpec(url="http://c:1")])
        await until(lambda: world.kinds().count("fault") == 2)
        await asyncio.sleep(0.05)

    steer(tmp_path, world, [A, B], 40, during)
    faults = {subject: message for kind, subject, message in world.told if kind == "fault"}
    assert faults["http://c:1"].startswith("could not be taken in: KeyError: 'a bug'")
    assert faults["http://a:1"].startswith("could not be closed: KeyError: 'another bug'")
    assert world.asked.count("http://c:1") == 1


class Idle:
    """A loop with nothing in flight."""

    async def leave(self, seat: Seat) -> None:
        seat.leave()


def test_a_run_that_ends_while_an_engine_leaves_closes_it() -> None:
    leaving, staying = Growing(), Growing()
    world = World({A.url or "": leaving, B.url or "": staying})
    hangs = asyncio.Event()

    async def release(seat: Seat) -> None:
        await hangs.wait()

    async def body() -> None:
        roster = Roster([A, B], world.take, world.tell, release)
        await roster.open()
        roster.want([B])
        roster.tend(Idle())  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        await roster.close()

    asyncio.run(body())
    assert leaving.closed and staying.closed


def test_a_start_that_is_cut_off_closes_the_engines_that_were_there_already() -> None:
    there = ScriptedEngine()
    world = World({A.url or "": there})

    async def take(spec: EngineSpec) -> Seat:
        if spec == B:
            await asyncio.sleep(60)
        return await world.take(spec)

    async def body() -> None:
        roster = Roster([A, B], take, world.tell)
        opening = asyncio.create_task(roster.open())
        await asyncio.sleep(0.01)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await roster.close()

    asyncio.run(body())
    assert there.closed
