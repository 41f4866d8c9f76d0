"""The simulated engine in process and in virtual time: the protocol, and every trouble down its path."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from draftmill.engines.check import check_reply
from draftmill.engines.protocol import Request
from draftmill.engines.simulated import Answers, Host, Kind, Lengths, ServerSpec, SimulatedEngine, Speed, Trouble, storm
from draftmill.errors import CapacityFault, EngineError, PromptFault, SetupFault, TransportFault
from draftmill.mill import clock, virtual
from draftmill.recipe import Sampling
from draftmill.records import Finish

SPEC = ServerSpec(kv_tokens=10_000, speed=Speed(0.01, 0.0), prefill_rate=1e6, context=8000, max_queued=5)
PROMPT = [20, 21, 22, 23]


def request(limit: int = 1000, tag: str = "t", prompt: list[int] | None = None) -> Request:
    return Request(PROMPT if prompt is None else prompt, limit, Sampling(), (2,), tag)


def played(use: Callable[[SimulatedEngine], Awaitable[Any]], spec: ServerSpec = SPEC, mean: float = 500) -> Any:
    async def body() -> Any:
        host = Host(spec, Answers(Lengths(mean, 0)))
        try:
            return await use(SimulatedEngine(host))
        finally:
            host.close()

    return virtual.run(body())


def test_an_answer_takes_its_time() -> None:
    async def use(engine: SimulatedEngine) -> None:
        for asked, finish in ((request(), Finish.STOP), (request(limit=20), Finish.LENGTH)):
            reply = await engine.generate(asked)
            assert reply.finish is finish
            assert check_reply(asked, reply, 1000) is None

    assert played(use).seconds == pytest.approx(499 * 0.01 + 19 * 0.01, abs=1e-3)


def test_it_says_what_it_is() -> None:
    async def use(engine: SimulatedEngine) -> None:
        identity = await engine.identify()
        assert (identity.kind, identity.context, identity.max_prompt) == ("simulated", 7998, 7993)
        with pytest.raises(PromptFault):
            await engine.generate(request(prompt=[20] * 7994, limit=1))
        with pytest.raises(PromptFault):
            await engine.generate(request(prompt=[]))

    played(use)


def test_beginnings_and_an_abort() -> None:
    async def use(engine: SimulatedEngine) -> None:
        heard: list[list[int]] = []
        work = asyncio.ensure_future(engine.generate(request(), heard.append))
        await asyncio.sleep(1.5)
        assert [len(ids) for ids in heard] == [100]
        assert await engine.abort("t")
        reply = await work
        ids = reply.output_ids
        assert reply.finish is Finish.ABORT and ids[:100] == heard[0] and len(ids) == reply.completion_tokens
        assert check_reply(request(), reply, 1000) is None
        assert (await engine.load()).running == 0
        rest = await engine.generate(request(prompt=PROMPT + ids, tag="u"))
        assert engine.host.server.answers.check(PROMPT, ids + rest.output_ids) is None
        assert len(ids + rest.output_ids) == 500
        assert not await engine.abort("t")

    played(use)


def test_a_cancelled_call_frees_the_server() -> None:
    async def use(engine: SimulatedEngine) -> None:
        work = asyncio.ensure_future(engine.generate(request()))
        await asyncio.sleep(1)
        work.cancel()
        await asyncio.sleep(0.02)
        assert (await engine.load()).kv_used == 0

    played(use)


def test_a_full_queue() -> None:
    async def use(engine: SimulatedEngine) -> None:

        work = [asyncio.ensure_future(engine.generate(request(tag=str(n)))) for n in range(8)]
        results = await asyncio.gather(*work, return_exceptions=True)
        assert [type(r) for r in results if isinstance(r, Exception)] == [CapacityFault] * 2

    spec = ServerSpec(10_000, Speed(0.01, 0.0), 1e6, context=8000, max_running=2, max_queued=5)
    played(use, spec)


@pytest.mark.parametrize(
    ("kind", "fault"), [(Kind.DENIED, SetupFault), (Kind.ERROR, TransportFault), (Kind.FULL, CapacityFault)]
)
def test_a_refusal_lasts_its_time(kind: Kind, fault: type[EngineError]) -> None:
    async def use(engine: SimulatedEngine) -> None:
        engine.host.strike(Trouble(kind, seconds=30))
        with pytest.raises(fault):
            await engine.generate(request())
        if kind is Kind.FULL:
            await engine.identify()
        else:
            with pytest.raises(fault):
                await engine.identify()
        await asyncio.sleep(30.1)
        await engine.generate(request())

    played(use)


def test_a_refusal_of_so_many_calls() -> None:
    async def use(engine: SimulatedEngine) -> None:
        engine.host.strike(Trouble(Kind.ERROR, seconds=30, count=2))
        for _ in range(2):
            with pytest.raises(TransportFault):
                await engine.generate(request())
        await engine.generate(request())

    played(use)


@pytest.mark.parametrize("kind", [Kind.RESET, Kind.ABORT])
def test_what_is_in_flight_is_cut_off(kind: Kind) -> None:
    async def use(engine: SimulatedEngine) -> None:
        work = [asyncio.ensure_future(engine.generate(request(tag=str(n)))) for n in range(3)]
        await asyncio.sleep(1)
        engine.host.strike(Trouble(kind, count=2))
        results = await asyncio.gather(*work, return_exceptions=True)
        assert [isinstance(r, TransportFault) for r in results] == [True, True, False]

    played(use)


def test_a_stall_holds_everything_back() -> None:
    async def use(engine: SimulatedEngine) -> None:
        work = asyncio.ensure_future(engine.generate(request()))
        await asyncio.sleep(1)
        engine.host.strike(Trouble(Kind.STALL, seconds=100))
        late = asyncio.ensure_future(engine.generate(request(tag="late")))
        before = await engine.load()
        await asyncio.sleep(60)
        after = await engine.load()
        assert (before.kv_used, after.kv_used) == (103, 103)
        await engine.identify()  # health endpoints lie
        await asyncio.gather(work, late)

    assert played(use).seconds == pytest.approx(1 + 100 + 5, abs=0.05)


def test_a_death_and_the_return() -> None:
    async def use(engine: SimulatedEngine) -> None:
        work = asyncio.ensure_future(engine.generate(request()))
        await asyncio.sleep(1)
        engine.host.strike(Trouble(Kind.DEATH, seconds=40))
        with pytest.raises(TransportFault):
            await work
        with pytest.raises(TransportFault):
            await engine.identify()
        await asyncio.sleep(40.1)
        assert (await engine.generate(request())).completion_tokens == 500

    played(use)


def test_a_death_of_its_own_prefill() -> None:
    async def use(engine: SimulatedEngine) -> None:
        with pytest.raises(TransportFault):
            await engine.generate(request(prompt=[20] * 3000))
        died = clock.now()
        with pytest.raises(TransportFault):
            await engine.load()
        await asyncio.sleep(10.1)
        await engine.load()
        assert died == 0

    played(use, ServerSpec(10_000, Speed(0.01, 0.0), context=8000, most_prefill_tokens=2000, restart=10))


def test_a_storm_is_drawn_by_its_seed() -> None:
    plan = storm(3, until=1000, every=20)
    assert plan == storm(3, until=1000, every=20) != storm(4, until=1000, every=20)
    assert 25 < len(plan) < 80
    assert [at for at, _ in plan] == sorted(at for at, _ in plan)
    assert {trouble.kind for _, trouble in plan} == set(Kind)
