"""The diagnosis as a table: recorded and made-up situations, each with its verdict and what it advises."""

from typing import Any

import pytest

from draftmill.ledger.told import FAILING, OTHER
from draftmill.watch.diagnosis import diagnose
from draftmill.watch.figures import Disk, LaneFigures, Lengths, Phase, Rates, Thinking, Unread
from draftmill.watch.finding import Finding, Level, Verdict
from tests.watch.situations import BUSY, NOW, Situation, dataset, engine, holds, reason, run

SITUATIONS: dict[str, Situation] = {
    "reference run at 0.85": (
        run(engine(running=52, queued=48, kv_use=0.83, rate=864.0, source="sglang.log")),
        Verdict.KV_BOUND,
        Level.WARN,
        "48 wait, since the server keeps 17% of its KV cache for what runs to grow into; 52 running, 48 queued, "
        "KV 83%, 864 tok/s (16.6 each)",
        "more concurrency will not help; lower its cap to about 57",
    ),
    "reference run, long answers": (
        run(engine(running=34, queued=115, kv_use=0.94, rate=606.0, source="sglang.log")),
        Verdict.KV_BOUND,
        Level.WARN,
        "115 wait because the KV cache is full; 34 running, 115 queued, KV 94%, 606 tok/s (17.8 each)",
        "those that wait gain nothing; more KV memory would",
    ),
    "reference run, shorter answers": (
        run(engine(running=72, queued=79, kv_use=0.96, rate=930.0, in_flight=151, cap=150, base=0.0415, each=0.00044)),
        Verdict.KV_BOUND,
        Level.WARN,
        "79 wait because the KV cache is full; 72 running",
        "(twice of it: about 1,373 tok/s)",
    ),
    "full cache, nothing waits": (
        run(engine(**BUSY | {"kv_use": 0.95})),
        Verdict.KV_BOUND,
        Level.GOOD,
        "as fast as its memory lets it",
        "an fp8 KV cache changes the data",
    ),
    "compute-bound": (
        run(engine(**BUSY | {"running": 400, "queued": 0, "in_flight": 400, "cap": 410, "base": 0.04, "each": 0.0005})),
        Verdict.COMPUTE_BOUND,
        Level.GOOD,
        "10 % more at once would bring 1.7 % more tokens",
        "more or faster GPUs",
    ),
    "our requests do not arrive": (
        run(engine(running=20, queued=0, kv_use=0.2, rate=300.0, in_flight=64, cap=64)),
        Verdict.CLIENT_BOUND,
        Level.WARN,
        "of 64 requests sent the server has only 20",
        "free a CPU core",
    ),
    "we do not send": (
        run(engine(running=20, queued=0, kv_use=0.2, rate=300.0, in_flight=20, cap=64)),
        Verdict.CLIENT_BOUND,
        Level.WARN,
        "only 20 of 64 requests are out although prompts are owed",
        "does not send fast enough",
    ),
    "another client": (
        run(engine(running=90, queued=10, kv_use=0.8, rate=900.0, in_flight=40, cap=40)),
        Verdict.SHARED,
        Level.WARN,
        "60 requests at the server are not this run's",
        "another client uses it",
    ),
    "starved by its cap": (
        run(engine(running=8, queued=0, kv_use=0.1, rate=140.0, in_flight=8, cap=8, auto=False)),
        Verdict.STARVED,
        Level.WARN,
        "nothing is queued and its cap is 8 at once",
        "draftmill control runs/k --engine http://a=16",
    ),
    "starved by a lane": (
        run(
            engine(running=4, queued=0, kv_use=0.05, rate=70.0, in_flight=4, cap=64, auto=True),
            lanes=[LaneFigures("short", 4096, 4)],
        ),
        Verdict.STARVED,
        Level.WARN,
        "the lanes let only 4 requests out",
        "--concurrency 8",
    ),
    "the governor is not done": (
        run(engine(running=64, queued=0, kv_use=0.3, rate=1100.0, in_flight=64, cap=64, auto=True)),
        Verdict.GROWING,
        Level.INFO,
        "64 at once now",
        "wait a few minutes",
    ),
    "slots": (
        run(engine(running=8, queued=6, kv_use=None, slots=8, rate=150.0, in_flight=14, cap=14)),
        Verdict.SLOT_BOUND,
        Level.WARN,
        "all 8 slots run and 6 wait",
        "--max-running-requests",
    ),
    "a queue before an empty cache": (
        run(engine(**BUSY | {"running": 20, "queued": 40, "kv_use": 0.2})),
        Verdict.SLOT_BOUND,
        Level.WARN,
        "40 wait although the cache has room",
        "its prefill",
    ),
    "tail": (
        run(engine(running=12, queued=0, kv_use=0.3, rate=200.0, in_flight=12, cap=64), data=dataset(owed=12)),
        Verdict.TAIL,
        Level.INFO,
        "nothing is left to be sent, 12 prompts in flight",
        "wait for the last ones",
    ),
    "retraction thrash": (
        run(engine(**BUSY | {"kv_use": 0.99, "queued": 20, "retractions": 25.0})),
        Verdict.RETRACTIONS,
        Level.WARN,
        "25 requests thrown back in a minute",
        "lower its cap to about 51",
    ),
    "the only engine is down": (
        run(engine(state="lost", why="http://a: connection refused", running=None, in_flight=0)),
        Verdict.ENGINE_DOWN,
        Level.BAD,
        "connection refused; nothing is generated",
        "restart the server",
    ),
    "one of two is down": (
        run(engine(state="lost", why="http://a: reset", running=None), engine(**BUSY | {"name": "http://b"})),
        Verdict.ENGINE_DOWN,
        Level.WARN,
        "the others go on",
        "answers are continued, not drawn again",
    ),
    "a server that draftmill keeps is down": (
        run(engine(state="lost", why="http://a: reset", running=None, kept="runs/k/serve/server-0.log")),
        Verdict.ENGINE_DOWN,
        Level.BAD,
        "reset; nothing is generated",
        "wait: draftmill starts it again, and answers are continued, not drawn again; see runs/k/serve/server-0.log",
    ),
    "the setup refuses us": (
        run(engine(state="paused", why="401 Unauthorized", running=None)),
        Verdict.ENGINE_DOWN,
        Level.BAD,
        "401 Unauthorized",
        "mend what it names",
    ),
    "a server fails every call": (
        run(engine(state="paused", why=f"8 {FAILING}, the last: HTTP 500", running=None)),
        Verdict.ENGINE_DOWN,
        Level.BAD,
        "8 calls in a row failed, the last: HTTP 500",
        "it answers and fails every call: see its log",
    ),
    "another server came back": (
        run(engine(state="paused", why=f"{OTHER}: model 'a' and 'b'", running=None)),
        Verdict.ENGINE_DOWN,
        Level.BAD,
        "model 'a' and 'b'",
        "serve there what the run was begun with",
    ),
    "a server stands still": (
        run(engine(state="lost", why="http://a: no progress for 300 s with 64 requests there", running=64)),
        Verdict.STALLED,
        Level.BAD,
        "no progress for 300 s",
        "restart the server",
    ),
    "no token comes": (
        run(engine(**BUSY | {"rate": 0.0}), data=dataset(rates=Rates(0.0, 0.0, 500.0, 500.0)), server_rate=0.0),
        Verdict.STALLED,
        Level.BAD,
        "61 requests in flight, and not one token in minutes",
        "--stall",
    ),
    "short of disk": (
        run(engine(**BUSY), disk=Disk(free=5_000_000_000, needed=9_000_000_000)),
        Verdict.DISK,
        Level.BAD,
        "5.0 GB are free, and the rest of the run needs about 9.0 GB",
        "free some space",
    ),
    "disk nearly full": (
        run(engine(**BUSY), disk=Disk(free=5_000_000)),
        Verdict.DISK,
        Level.BAD,
        "0.0 GB are free",
        "a full disk stops the run",
    ),
    "budget about to be overshot": (
        run(engine(**BUSY), data=dataset(budget=10_000_000, generated=9_900_000, growing=90_000, growing_answers=450)),
        Verdict.OVERSHOOT,
        Level.WARN,
        "B1 will have 10.57M of 10.00M tokens (+6%), those in flight included",
        "--concurrency short=N",
    ),
    "budget out of reach": (
        run(engine(**BUSY), data=dataset(budget=10_000_000, owed=1000, counting=500, counted=750_000)),
        Verdict.OUT_OF_REACH,
        Level.WARN,
        "all prompts of B1 together will give about 2.25M of the 10.00M tokens",
        "lower its budget",
    ),
    "reference run's B2": (
        run(engine(**BUSY), data=dataset(name="B2", budget=10_000_000, generated=26_600_000)),
        Verdict.OVERSHOOT,
        Level.WARN,
        "B2 has 26.60M of 10.00M tokens (+166%)",
        "kept as surplus",
    ),
    "answers truncated": (
        run(engine(**BUSY), data=dataset(truncated=0.31, cut_at=(10_240, 10_240), thinking=Thinking(100, 0.8, 28))),
        Verdict.TRUNCATED,
        Level.WARN,
        "31% of B1's are cut by the limit of 10,240 tokens of lane short; 28% never leave their thinking",
        "lanes.short.max_new_tokens",
    ),
    "cut by a limit that was raised since": (
        run(engine(**BUSY), data=dataset(truncated=0.31, cut_at=(4096, 4096))),
        Verdict.TRUNCATED,
        Level.WARN,
        "31% of B1's are cut by the limit of 4,096 tokens of lane short; 10,240 are allowed now",
        "what is still to come may have longer ones",
    ),
    "cut where the context was full, and nothing is owed": (
        run(engine(**BUSY), data=dataset(truncated=0.31, cut_at=(9, 18), owed=0)),
        Verdict.TRUNCATED,
        Level.WARN,
        "of lane short; 10,240 are allowed now: it was raised, or the context was full",
        "another run may have longer ones",
    ),
    "cut by several limits": (
        run(engine(**BUSY), data=dataset(truncated=0.31, cut_at=(4096, 10_240))),
        Verdict.TRUNCATED,
        Level.WARN,
        "31% of B1's are cut by limits of 4,096 to 10,240 tokens of lane short",
        "lanes.short.max_new_tokens",
    ),
    "error burst": (
        run(
            engine(**BUSY),
            data=dataset(errors=12, recent_errors=12, recent_answers=40, error_reasons=reason("invalid tools")),
        ),
        Verdict.ERRORS,
        Level.BAD,
        "12 of the last 52 prompts failed, most often: invalid tools",
        "first at x.jsonl:7",
    ),
    "too many errors in all": (
        run(engine(**BUSY), data=dataset(errors=100, error_reasons=reason())),
        Verdict.ERRORS,
        Level.BAD,
        "17% of its prompts failed",
        "--retry-errors",
    ),
    "lines that are not understood": (
        run(engine(**BUSY), unread=[Unread("B1/raw_responses.jsonl", 37, 12, "no such field")]),
        Verdict.UNREAD,
        Level.WARN,
        "B1/raw_responses.jsonl: 37 lines not understood, line 12 first: no such field",
        "counted nowhere",
    ),
    "done, a few answers truncated": (
        run(phase=Phase.ENDED, data=dataset(owed=0, answers=8, truncated=0.5, cut_at=(10_240, 10_240))),
        Verdict.TRUNCATED,
        Level.WARN,
        "50% of B1's are cut by the limit of 10,240 tokens of lane short",
        "raise lanes.short.max_new_tokens in another run",
    ),
    "an engine that was not heard for a while": (
        run(engine(time=NOW - 40, in_flight=8, cap=8)),
        Verdict.ENGINE_DOWN,
        Level.INFO,
        "http://a: no figures for 40s",
        "",
    ),
    "healthy": (
        run(engine(**BUSY)),
        Verdict.HEALTHY,
        Level.GOOD,
        "60 running, 1 queued, KV 75%, 900 tok/s (15.0 each)",
        "",
    ),
    "its first requests are under way": (
        run(engine(running=0, queued=0, in_flight=8, cap=8), started=NOW - 2),
        Verdict.STARTING,
        Level.INFO,
        "its first requests are under way; 0 running",
        "",
    ),
    "they do not arrive": (
        run(engine(running=0, queued=0, in_flight=8, cap=8), started=NOW - 12),
        Verdict.CLIENT_BOUND,
        Level.WARN,
        "of 8 requests sent the server has only 0",
        "free a CPU core",
    ),
    "nobody knows its rate": (
        run(engine(running=8, queued=0, in_flight=8, cap=10, kv_use=0.7)),
        Verdict.HEALTHY,
        Level.GOOD,
        "8 running, 0 queued, KV 70%, – tok/s",
        "",
    ),
    "cut answers of a lane that is not known": (
        run(engine(**BUSY), data=dataset(lane="", truncated=0.31)),
        Verdict.TRUNCATED,
        Level.WARN,
        "31% of B1's are cut by a limit",
        "raise max_new_tokens of its lane for what is still owed",
    ),
    "nothing is known yet": (run(), Verdict.STARTING, Level.INFO, "nothing has been seen", ""),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation(name: str) -> None:
    holds(SITUATIONS[name], diagnose(SITUATIONS[name][0])[0])


def test_enough_situations() -> None:
    assert len({verdict for _, verdict, *_ in SITUATIONS.values()}) >= 14


@pytest.mark.parametrize("name", SITUATIONS)
def test_whatever_is_wrong_is_said_in_one_line_with_what_to_do(name: str) -> None:
    for finding in diagnose(SITUATIONS[name][0]):
        assert "\n" not in finding.message + finding.advice
        if finding.level in (Level.BAD, Level.WARN):
            assert finding.advice


def test_the_bottleneck_is_told_beside_what_is_worse() -> None:
    figures = run(engine(running=34, queued=115, kv_use=0.94, rate=606.0), disk=Disk(free=1))
    assert [f.verdict for f in diagnose(figures)] == [Verdict.DISK, Verdict.KV_BOUND]


def test_every_engine_has_its_own_verdict() -> None:
    found = diagnose(run(engine(**BUSY), engine(name="http://b", running=8, queued=0, in_flight=8, cap=8, kv_use=0.1)))
    by_subject: dict[str, Finding] = {f.subject: f for f in found}
    assert by_subject["http://b"].verdict is Verdict.STARVED and by_subject["http://a"].verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, True),
        ({"owed": 1500}, False),  # all long ones would reach it
        ({"answers": 100}, False),  # of 61 in flight the first to end are the short ones
        ({"owed": 0}, False),
        ({"budget": None}, False),
    ],
)
def test_a_budget_is_out_of_reach_only_if_that_is_sure(fields: dict[str, Any], told: bool) -> None:
    known = {"budget": 4_000_000, "owed": 1000, "counting": 500, "counted": 750_000}
    found = diagnose(run(engine(**BUSY), data=dataset(**known | fields)))
    assert (Verdict.OUT_OF_REACH in {f.verdict for f in found}) is told


@pytest.mark.parametrize(("generated", "flying", "told"), [(249, 0, False), (249, 2, True), (300, 0, True)])
def test_a_tiny_budget_is_reached_by_a_whole_answer(generated: int, flying: int, told: bool) -> None:
    """Less than one answer above it is no overshoot once nothing is in flight."""
    data = dataset(budget=200, generated=generated, owed=0, lengths=Lengths(4, 249, 62.0, 30, 60, 80, 80, 80))
    found = diagnose(run(engine(running=flying, queued=0, in_flight=flying), data=data))
    assert (Verdict.OVERSHOOT in {f.verdict for f in found}) is told
