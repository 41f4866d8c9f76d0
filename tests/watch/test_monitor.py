"""The live monitor: its screens at several widths against golden text, and its keys on a run's control file.

``UPDATE_GOLDEN=1 pytest tests/watch/test_monitor.py`` writes the golden screens anew; look at them before keeping them.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from draftmill.journal.folder import RunFolder
from draftmill.recipe import read_control
from draftmill.records import Finish
from draftmill.watch.monitor import Monitor
from draftmill.watch.stats import RunWatch
from tests.watch.folders import NOW, append, begin, completion, done, event, failure, load
from tests.watch.screen import text_of

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run in progress, KV-bound, with two datasets and some errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    made = begin(
        Path("run"),
        {"name": "B1_glaive", "prompts": 600, "budget": 150_000},
        {"name": "B6_ultrachat", "prompts": 400},
        lanes={"short": {"max_new_tokens": 10240, "concurrency": 150}},
        engines=[{"url": "http://e", "concurrency": 150}],
    )
    append(made.events, event(NOW - 700, "milling"), event(NOW - 690, "cap", "http://e", "150 at once, as told"))
    for step in range(70):
        at = NOW - 700 + 10 * step
        append(
            made.load, done(at, B1_glaive=(step // 4, 0, 400 * step, 600), B6_ultrachat=(step // 7, 0, 240 * step, 0))
        )
        rate = 600.0 + 20 * (step % 7)
        sample = {"kv_used": 149_720, "kv_total": 159_277, "generation_rate": rate, "preemptions": 0}
        append(made.load, load(at, running=34, queued=115, in_flight=149, cap=150, **sample))
    b1, b6 = made.dataset("B1_glaive"), made.dataset("B6_ultrachat")
    append(b1.journal, *(completion(n, 900, "B1_glaive") for n in range(12)))
    append(b1.journal, completion(12, 600, "B1_glaive", partial=True, finish_reason=Finish.ABORT))
    append(b1.journal, *(completion(n, 10240, "B1_glaive", finish_reason=Finish.LENGTH) for n in range(13, 15)))
    append(b1.errors, failure(20, "the prompt has 200000 tokens", "B1_glaive"))
    append(b6.journal, *(completion(n, 1700, "B6_ultrachat") for n in range(10)))
    return made


def on(folder: RunFolder, act: Callable[[Monitor, Pilot[None]], Awaitable[None]], size: tuple[int, int]) -> str:
    """Run the monitor headless, do something in it, and return its screen."""

    async def body() -> str:
        app = Monitor(RunWatch(folder.path, now=lambda: NOW), every=3600)
        async with app.run_test(size=size) as pilot:
            await settled(app, pilot)
            await act(app, pilot)
            await settled(app, pilot)
            return text_of(app)

    return asyncio.run(body())


async def settled(app: Monitor, pilot: Pilot[None]) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()


async def nothing(app: Monitor, pilot: Pilot[None]) -> None:
    pass


def press(*keys: str) -> Callable[[Monitor, Pilot[None]], Awaitable[None]]:
    async def act(app: Monitor, pilot: Pilot[None]) -> None:
        for key in keys:
            await pilot.press(key)
            await settled(app, pilot)

    return act


@pytest.mark.parametrize(
    ("name", "size", "act"),
    [
        ("overview-160", (160, 30), nothing),
        ("overview-100", (100, 30), nothing),
        ("overview-60", (60, 30), nothing),
        ("engines-100", (100, 30), press("2")),
        ("errors-100", (100, 16), press("3")),
        ("answers-100", (100, 30), press("4")),
        ("ask-100", (100, 24), press("c")),
    ],
)
def test_screen(
    name: str, size: tuple[int, int], act: Callable[[Monitor, Pilot[None]], Awaitable[None]], folder: RunFolder
) -> None:
    shown = on(folder, act, size)
    golden = GOLDEN / f"monitor-{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(shown)
    assert shown == golden.read_text()
    assert max(map(len, shown.splitlines())) <= size[0]


def test_keys_steer_the_run(folder: RunFolder) -> None:
    on(folder, press("p"), (100, 30))
    assert read_control(folder.control).pause
    shown = on(folder, press("p", "c", *"short=64", "enter", "b", *"B1_glaive=1k", "enter"), (100, 30))
    control = read_control(folder.control)
    assert not control.pause
    assert (control.concurrency, control.budgets) == ({"short": 64}, {"B1_glaive": 1000})
    assert "a run that is on follows within a second or two" in shown
    on(folder, press("c", *"http://e=auto", "enter"), (100, 30))
    assert read_control(folder.control).engines == {"http://e": "auto"}


def test_what_does_not_fit_is_told_and_changes_nothing(folder: RunFolder) -> None:
    shown = on(folder, press("b", *"B9=1k", "enter"), (100, 30))
    assert "no dataset 'B9'" in shown and not folder.control.exists()
    on(folder, press("c", "escape"), (100, 30))
    assert not folder.control.exists()


def test_an_answer_that_cannot_be_decoded_says_why(folder: RunFolder) -> None:
    shown = on(folder, press("4", "enter"), (100, 30))
    assert "tokenizer" in shown


def test_a_folder_of_another_version(tmp_path: Path) -> None:
    reply = {"choices": [{"message": {"content": "Hello there."}, "finish_reason": "stop"}]}
    append(tmp_path / "B1" / "raw_responses.jsonl", reply | {"usage": {"prompt_tokens": 3, "completion_tokens": 5}})
    shown = on(RunFolder(tmp_path), press("4", "enter"), (100, 30))
    assert "Hello there." in shown
