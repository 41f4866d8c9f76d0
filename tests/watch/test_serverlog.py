"""Servers' own logs, as versions years apart wrote them: golden figures of each."""

from pathlib import Path

import pytest

from draftmill.watch.diagnosis import diagnose
from draftmill.watch.finding import Verdict
from draftmill.watch.serverlog import ServerLog, read
from draftmill.watch.stats import RunWatch
from tests.watch.folders import NOW, append, begin, load

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "running", "queued", "use", "rate", "retracted", "total", "slots", "unread"),
    [
        ("sglang-0.4.6", 52, 48, 0.83, 864.61, 0, 116171, 2048, 0),
        ("sglang-0.5.8", 72, 79, 0.96, 930.0, 3, 159277, 2048, 0),
        ("sglang-dp", 22, 3, 0.5, 411.0, 0, None, None, 1),
        ("vllm-0.6", 5, 1, 0.6, 15.5, 5, None, None, 0),
        ("vllm-0.32", 70, 130, 0.92, 1200.0, 0, 2 * 643232, None, 0),
    ],
)
def test_golden(  # type: ignore[no-untyped-def]
    name: str, running: int, queued: int, use: float, rate: float, retracted: int, total, slots, unread: int
) -> None:
    log = ServerLog(GOLDEN / f"{name}.log")
    figures = log.refresh().figures()
    assert (figures.running, figures.queued, figures.retracted) == (running, queued, retracted)
    assert (figures.kv_use, figures.rate) == (pytest.approx(use), pytest.approx(rate))
    assert (figures.kv_total, figures.slots) == (total, slots)
    assert sum(u.lines for u in log.unread()) == unread
    assert figures.source.endswith(f"{name}.log") and figures.time


@pytest.mark.parametrize("line", ["", "INFO: started", "Decode is fast", "POST /generate 200 OK"])
def test_lines_that_announce_no_figures(line: str) -> None:
    assert read(line) is None


def test_read_as_it_grows_and_anew_where_it_was_rotated(tmp_path: Path) -> None:
    path = tmp_path / "sglang.log"
    lines = (GOLDEN / "sglang-0.5.8.log").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    log = ServerLog(path)
    assert log.refresh().figures().running == 34
    append(path, lines[2], lines[3][:-20])
    assert log.refresh().figures().running == 34
    append(path, lines[3][-20:])
    figures = log.refresh().figures()
    assert (figures.running, figures.retractions) == (72, 3.0)
    path.write_bytes(lines[1])
    assert log.refresh().figures().running == 34


def test_of_the_engine_that_says_nothing_itself(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    append(folder.load, load(NOW, in_flight=149, cap=150, running=None))
    watch = RunWatch(tmp_path, now=lambda: NOW, logs=[ServerLog(GOLDEN / "sglang-0.4.6.log")])
    (engine,) = watch.refresh().engines
    assert (engine.name, engine.in_flight, engine.running) == ("http://e", 149, 52)
    append(folder.load, load(NOW + 2, running=3))
    assert [e.running for e in watch.refresh().engines] == [3, 52]


def test_of_an_engine_that_is_away_its_log_tells_only_what_was(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    log = GOLDEN / "sglang-0.4.6.log"
    said = ServerLog(log).refresh().time
    append(folder.load, load(said + 90, in_flight=149, cap=150, running=None))
    now = said + 91
    watch = RunWatch(tmp_path, now=lambda: now, logs=[ServerLog(log)])
    (engine,) = watch.refresh().engines
    assert (engine.in_flight, engine.running, engine.kv_use) == (149, None, None), "nothing was written for a minute"
    append(folder.load, load(said + 92, state="lost", running=None))
    (engine,) = watch.refresh().engines
    assert (engine.state, engine.running) == ("lost", None)


def test_of_a_folder_without_any_load(tmp_path: Path) -> None:
    """The reference run's question: 864 tok/s, what is the bottleneck?"""
    append(tmp_path / "B1" / "raw_responses.jsonl", {"completion_tokens": 9, "prompt_tokens": 3})
    watch = RunWatch(tmp_path, now=lambda: NOW, logs=[ServerLog(GOLDEN / "sglang-0.4.6.log")])
    assert Verdict.KV_BOUND in {finding.verdict for finding in diagnose(watch.refresh())}
