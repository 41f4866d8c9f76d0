"""What a run that is over was bound by."""

from pathlib import Path

import pytest

from draftmill.watch.finding import Verdict
from draftmill.watch.report.facts import gather
from draftmill.watch.stats import RunWatch
from tests.watch.folders import NOW, append, begin, completion, event, load


@pytest.mark.parametrize(
    ("middle", "verdict", "said"),
    [
        (
            {"running": 34, "queued": 115, "in_flight": 149, "kv_used": 94, "kv_total": 100},
            Verdict.KV_BOUND,
            "115 wait",
        ),
        (
            {"running": 8, "queued": 0, "in_flight": 8, "cap": 8, "kv_used": 9, "kv_total": 100},
            Verdict.STARVED,
            "cap is 8",
        ),
    ],
)
def test_start_and_tail_do_not_decide(tmp_path: Path, middle: dict[str, int], verdict: Verdict, said: str) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 1})
    append(folder.events, event(NOW, "milling"), event(NOW + 400, "ended", "run", "done"))
    append(folder.dataset("d").journal, completion(0))
    few = {"running": 1, "queued": 0, "in_flight": 1, "kv_used": 1, "kv_total": 100}
    for n, sample in enumerate([few] * 15 + [middle] * 20 + [few] * 25):
        append(folder.load, load(NOW + 5 * n, **sample))
    found = gather(RunWatch(folder.path, now=lambda: NOW + 500), 0).findings[-1]
    assert found.verdict is verdict and found.message.startswith("most of the time") and said in found.message
    assert "draftmill control" not in found.advice  # nothing runs any more


def test_a_short_run_is_not_judged(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 1})
    append(folder.events, event(NOW, "milling"), event(NOW + 9, "ended", "run", "done"))
    append(folder.load, load(NOW), load(NOW + 5))
    assert not any(
        "most of the time" in f.message for f in gather(RunWatch(folder.path, now=lambda: NOW + 9), 0).findings
    )
