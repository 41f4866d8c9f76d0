"""The governor's law case by case, its bounds as properties, and the real loop under it on simulated servers."""

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.engines.protocol import Load
from draftmill.mill import seat as seats
from draftmill.mill.forecast import Forecast
from draftmill.mill.governor import MOST, START, Governor, Signals, Speeds
from draftmill.mill.growth import Growth
from draftmill.mill.seat import Seat
from draftmill.recipe import EngineSpec
from tests.mill.scripted import ScriptedEngine

CALM = Signals(
    seconds=20,
    running=40,
    queued=0,
    in_flight=40,
    binds=True,
    growth=Growth(),  # room for everything
    kv_used=60_000,
    kv_total=100_000,
    rate=400.0,
)


def governor(cap: int = 40, **facts: Any) -> Governor:
    """One that has had this cap for a while."""
    made = Governor(**{"kv_tokens": 100_000} | facts)
    made.cap = cap
    return made


def growing(prompt: int, flights: int = 0) -> Growth:
    """Answers of which nothing is known but their limit of 100 tokens, a prompt of so many before each."""
    forecast, made = Forecast(100), Growth()
    made.newcomer(forecast, prompt)
    for _ in range(flights):
        made.add(forecast, prompt, 0)
    return made


@pytest.mark.parametrize(
    ("facts", "prompt", "cap", "ceiling"),
    [
        ({"kv_tokens": 159_277}, 4000, START, 38),
        ({"kv_tokens": 4_000_000}, 1000, START, START),
        ({"kv_tokens": 8000}, 9000, START, 1),
        ({"kv_tokens": 159_277, "slots": 8}, 4000, 8, 8),
        ({"slots": 4}, 4000, 4, 4),
        ({"slots": 200}, 4000, 200, 200),  # slots without a cache decide alone
        ({}, 4000, START, START),
    ],
)
def test_where_it_starts(facts: dict[str, int], prompt: int, cap: int, ceiling: int) -> None:
    decision = Governor(**facts).start(growing(prompt))
    assert (decision.cap, decision.ceiling) == (cap, ceiling)


@pytest.mark.parametrize(
    ("changes", "cap", "ceiling", "reason"),
    [
        ({}, 50, 44, "no request waits"),  # a tenth more than run may be sent until the next look
        ({"binds": False}, 40, 40, ""),
        ({"queued": 2}, 50, 42, "only 2 wait"),
        ({"queued": 4}, 40, 40, ""),
        ({"queued": 9, "running": 31}, 40, 34, ""),  # six too many wait: none is sent until they do not
        ({"queued": 90, "in_flight": 130}, 40, 40, ""),
        ({"running": 5, "in_flight": 6, "binds": False}, 40, 7, ""),  # one may wait even where few run
        ({"running": 0, "in_flight": 0, "binds": False}, 40, 40, ""),  # nothing says yet what may be too many
        ({"growth": growing(1000, 40), "kv_used": 99_000}, 50, 37, "no request waits"),  # no room
        ({"growth": growing(1000), "kv_used": 100_000, "in_flight": 0}, 50, 1, "no request waits"),  # or all would wait
        ({"preempted": 1}, 40, 40, "1 thrown back"),
        ({"draining": True, "preempted": 3}, 40, 40, ""),
        ({"kv_used": None, "preempted": 1}, 36, 36, "1 thrown back"),  # without a cache to look at
        ({"kv_used": None}, 50, 44, "no request waits"),
    ],
)
def test_what_it_decides(changes: dict[str, Any], cap: int, ceiling: int, reason: str) -> None:
    decision = governor().decide(msgspec.structs.replace(CALM, **changes))
    assert (decision.cap, decision.ceiling) == (cap, ceiling)
    assert decision.reason.startswith(reason) and bool(decision.reason) == bool(reason)


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({"queued": 5, "binds": False}, "5 wait in its queue, where 4 may"),
        ({"growth": growing(1000, 40), "kv_used": 99_000}, "what its KV cache has room for until they have ended"),
        ({"running": 0, "in_flight": 0, "binds": False}, "more at once would generate no faster, as far as is known"),
        ({"draining": True}, ""),
    ],
)
def test_it_says_what_bounds_what_is_in_flight(changes: dict[str, Any], bound: str) -> None:
    assert governor().decide(msgspec.structs.replace(CALM, **changes)).bound == bound


@pytest.mark.parametrize(
    ("changes", "look"),
    [
        ({}, 2.0),
        ({"rate": 40.0}, 2.0),
        ({"rate": 100.0}, 1.25),  # 40 s until all that runs has ended: answers of 100 tokens
        ({"rate": 1000.0}, 0.5),
        ({"rate": 1000.0, "draining": True}, 2.0),
        ({"rate": None}, 2.0),
    ],
)
def test_it_looks_often_where_answers_end_often(changes: dict[str, Any], look: float) -> None:
    signals = msgspec.structs.replace(CALM, growth=growing(1000), **{"rate": 10.0} | changes)
    assert governor().decide(signals).look == pytest.approx(look)


def test_requests_thrown_back_widen_the_margin_and_tokens_narrow_it() -> None:
    made = governor()
    begun = made.margin
    made.decide(msgspec.structs.replace(CALM, preempted=4))
    wide = made.margin
    assert wide > begun
    full = msgspec.structs.replace(CALM, growth=growing(1000, 40), kv_used=50_000, seconds=2)
    before = made.decide(full).ceiling
    for _ in range(1000):  # 800,000 tokens: 16 cachefuls
        made.decide(full)
    assert made.margin < wide
    assert made.decide(full).ceiling >= before
    for _ in range(100):
        made.decide(msgspec.structs.replace(CALM, preempted=40))
    assert made.margin == 4.0  # a storm ends somewhere: what comes after it must be able to undo it


def test_it_waits_for_what_a_step_brought() -> None:
    made = governor()
    assert [made.decide(msgspec.structs.replace(CALM, seconds=9)).cap for _ in range(5)] == [50, 50, 50, 62, 62]


def test_a_cut_cap_grows_by_one() -> None:
    made = governor(kv_tokens=None)
    blind = msgspec.structs.replace(CALM, kv_used=None, kv_total=None)
    low = made.decide(msgspec.structs.replace(blind, preempted=2)).cap
    assert [made.decide(blind).cap for _ in range(3)] == [low + 1, low + 2, low + 3]


def test_it_stops_where_more_at_once_gains_nothing() -> None:
    made = governor(START, kv_tokens=10_000_000)
    for _ in range(500):
        running = made.cap
        rate = running / (0.01 + 0.002 * running)
        made.decide(
            Signals(5, running, 0, running, True, Growth(), kv_used=running * 500, kv_total=10_000_000, rate=rate)
        )
    assert 150 < made.cap < 260  # W/H is 5: 97.5 % of all it can do at 195


def test_speeds_need_two_loads() -> None:
    speeds = Speeds()
    for _ in range(5):
        speeds.note(40, 680.0)
    assert speeds.enough() == float("inf")


@st.composite
def growths(draw: st.DrawFn) -> Growth:
    forecasts = [Forecast(draw(st.integers(1, 20_000))) for _ in range(draw(st.integers(1, 3)))]
    for forecast in forecasts:
        for length in draw(st.lists(st.integers(1, forecast.limit), max_size=20)):
            forecast.add(length, cut=draw(st.booleans()))
        forecast.refresh(())
    made = Growth()
    for forecast in forecasts:
        made.newcomer(forecast, draw(st.integers(1, 10_000)))
    for there in draw(st.lists(st.floats(0, 30_000), max_size=20)):
        made.add(draw(st.sampled_from(forecasts)), draw(st.integers(1, 10_000)), there, waits=draw(st.booleans()))
    return made


signals = st.builds(
    Signals,
    seconds=st.floats(0, 1000),
    running=st.integers(0, 3000),
    queued=st.integers(0, 3000),
    in_flight=st.integers(0, 3000),
    binds=st.booleans(),
    growth=st.builds(Growth) | growths(),
    draining=st.booleans(),
    kv_used=st.none() | st.integers(0, 10**7),
    kv_total=st.none() | st.integers(1, 10**7),
    preempted=st.just(0) | st.integers(0, 100),
    rate=st.none() | st.floats(0, 1e5),
)


@settings(max_examples=100, deadline=None)
@given(
    slots=st.none() | st.integers(1, 5000),
    kv_tokens=st.none() | st.integers(1, 10**7),
    first=growths(),
    many=st.lists(signals, max_size=20),
)
def test_its_bounds(slots: int | None, kv_tokens: int | None, first: Growth, many: list[Signals]) -> None:
    made = Governor(slots, kv_tokens)
    start = made.start(first)
    assert 1 <= start.ceiling <= start.cap == made.cap
    for one in many:
        before, margin = made.cap, made.margin
        decision = made.decide(one)
        assert 1 <= decision.ceiling <= decision.cap == made.cap <= min(slots or MOST, MOST)
        assert decision.ceiling <= max(1, one.in_flight + max(2, one.running // 10) - one.queued) or not one.in_flight
        assert made.cap <= max(before + 1, -(-before * 5 // 4))
        assert decision.reason or made.cap == before
        if one.preempted:
            assert made.cap <= before
        if one.draining:
            assert (made.cap, made.margin) == (before, margin)


def test_a_seat_follows_its_governor_and_a_number_fixes_it() -> None:
    told: list[tuple[str, str, str]] = []

    def seat(concurrency: int | str) -> Seat:
        engine = ScriptedEngine(kv_tokens=100_000)
        spec = EngineSpec.model_validate({"url": "http://127.0.0.1:1", "concurrency": concurrency})
        return Seat(engine, spec, engine._identity, lambda *event: told.append(event))

    async def feed(one: Seat) -> list[int]:
        one.begin(growing(3000))
        free = [one.free]
        for in_flight, queued, thrown in ((30, 0, 5), (31, 2, 8), (30, 5, 8)):
            one.in_flight = in_flight
            load = Load(in_flight - queued, queued, 60_000, 100_000, 400.0, preemptions=thrown)
            one.govern(load, growing(100), draining=False)
            free.append(one.free)
        return free

    auto, fixed = seat("auto"), seat(40)
    assert asyncio.run(feed(fixed)) == [40, 10, 9, 10]
    assert asyncio.run(feed(auto)) == [32, 3, 0, 0]
    assert (fixed.cap, fixed.most, auto.cap) == (40, 40, START)
    assert told == [
        ("cap", "scripted", "32 at once: room at the start in 100000 tokens of KV cache"),
        ("cap", "scripted", "31 at once: 3 thrown back for want of KV cache"),
    ]


def test_what_may_be_in_flight_is_told_where_it_has_moved_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a quarter of what was told last, and not oftener than once a minute."""
    told: list[str] = []
    now = 1000.0
    monkeypatch.setattr(seats.clock, "now", lambda: now)
    engine = ScriptedEngine(kv_tokens=100_000)
    spec = EngineSpec.model_validate({"url": "http://127.0.0.1:1"})
    seat = Seat(engine, spec, engine._identity, lambda kind, subject, message: told.append(message))
    seat.begin(growing(3000))
    for seconds, in_flight in ((5, 20), (60, 20), (1, 10), (59, 18), (60, 10)):
        now += seconds
        seat.in_flight = in_flight
        seat.govern(Load(in_flight, 0, 99_900, 100_000, 1e-6), growing(3000, in_flight), draining=False)
    room = "at once: what its KV cache has room for until they have ended"
    assert [line for line in told[1:] if "at the start" not in line] == [f"19 {room}", f"9 {room}"]


def benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks/bench_governor.py"
    spec = importlib.util.spec_from_file_location("bench_governor", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("server", "best", "share", "seconds"),
    # ``best``: the best fixed number of the benchmark's sweep; where requests are thrown back, the best at 1 % of that
    [
        ("kv-bound", 100, 0.95, 3000),
        ("compute-bound", 512, 0.97, 1500),
        ("retraction-prone", 20, 1.02, 3000),
        ("tiny", 24, 0.98, 1500),
    ],
)
def test_beside_the_best_fixed_number(server: str, best: int, share: float, seconds: float) -> None:
    bench = benchmark()
    case = bench.CASES[server]
    auto, fixed = bench.measure(case, "auto", seconds), bench.measure(case, best, seconds)
    assert auto.rate >= share * fixed.rate
    assert auto.queue < 0.12
    assert auto.sent <= 0.01  # looks at which more than a quarter of what runs waits that has never run,
    assert auto.long < 0.05  # and with those that were thrown back
    assert auto.recomputed < 0.02  # over so short a time; the benchmark's hours give 1 %
    assert auto.changes < 60
