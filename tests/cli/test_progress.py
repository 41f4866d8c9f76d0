from types import SimpleNamespace
from typing import Any

import pytest

from draftmill.cli import progress
from draftmill.cli.progress import Progress
from draftmill.mill.seat import State


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def stream(name: str, end: int, budget: int | None = None, resumed: int = 0) -> Any:
    before = SimpleNamespace(counting=resumed, surplus=0, passed_through=0, error=0, counting_tokens=100 * resumed)
    standing = SimpleNamespace(budget=budget)
    return SimpleNamespace(
        name=name, end=end, resumed=before, standing=standing, completed=0, failed=0, tokens=0, counted=0
    )


def answered(one: Any, answers: int) -> None:
    one.completed += answers
    one.tokens += 100 * answers
    one.counted += 100 * answers


def of(*streams: Any) -> Progress:
    seat = SimpleNamespace(state=State.OPEN)
    loop: Any = SimpleNamespace(streams=list(streams), at_engines=lambda index: 3, paused=False, seats=[seat])
    return Progress(loop)


def test_a_log_has_one_line_of_all_datasets(clock: Clock) -> None:
    chat, code = stream("chat", 100), stream("code", 20, resumed=10)
    shown = of(chat, code)
    assert shown.line() == "all: 10/120 prompts, 1,000 tokens, – tok/s, 0 errors, 6 in flight, – left"
    clock.now = 10.0
    answered(chat, 20)
    answered(code, 5)
    line = shown.line()
    assert line == "all: 35/120 prompts, 3,500 tokens, 250 tok/s, 0 errors, 6 in flight, 40s left"


def test_one_dataset_has_its_name(clock: Clock) -> None:
    assert of(stream("chat", 100)).line().startswith("chat: 0/100 prompts")


@pytest.mark.parametrize("halt", [{"paused": True}, {"seats": []}, {"seats": [SimpleNamespace(state=State.LOST)]}])
def test_nobody_knows_the_end_while_nothing_is_sent(clock: Clock, halt: dict[str, Any]) -> None:
    chat = stream("chat", 100)
    shown = of(chat)
    shown.line()
    clock.now = 10.0
    answered(chat, 20)
    assert shown.line().endswith("40s left")
    vars(shown._loop).update(halt)
    assert shown.line().endswith("– left")


def test_what_has_reached_its_budget_keeps_nobody_from_knowing_the_end(clock: Clock) -> None:
    done, going = stream("done", 1000, budget=500, resumed=5), stream("going", 1000, budget=10_000)
    shown = of(done, going)
    shown.line()
    clock.now = 10.0
    answered(going, 20)
    line = shown.line()
    assert line == "all: 25/2,000 prompts, 2,500/10,500 tokens, 200 tok/s, 0 errors, 6 in flight, 40s left"


def test_a_rate_is_known_where_lines_come_seldom(clock: Clock) -> None:
    chat = stream("chat", 1000)
    shown = of(chat)
    for _ in range(3):
        shown.line()
        clock.now += 60.0
        answered(chat, 60)
    assert "100 tok/s" in shown.line()
