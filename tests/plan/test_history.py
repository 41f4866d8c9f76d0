"""What a run's folder knows of lengths and loads, and what a plan makes of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftmill.capacity.started import Started
from draftmill.engines.protocol import Identity
from draftmill.ids import encode
from draftmill.journal.folder import RunFolder
from draftmill.ledger.order import conversation_id
from draftmill.plan.demand import ANSWER, PROMPT, demands
from draftmill.plan.history import Seen, as_starts, identities, launched, loads, pace, seen, starts
from draftmill.recipe import Plan, Recipe
from draftmill.records import Completion, Finish, Prompt

RECIPE = Recipe.model_validate(
    {
        "model": "m",
        "engines": "http://127.0.0.1:9",
        "datasets": [{"name": "a", "source": "x", "budget": 10_000}],
        "lanes": {"short": {"max_new_tokens": 1000}},
    }
)


def run(path: Path, answered: dict[int, int], prompts: int = 60) -> RunFolder:
    """A dataset whose prompt n has 10 + n tokens; ``answered`` gives the answers' tokens by position."""
    folder = RunFolder(path)
    files = folder.dataset("a")
    files.path.mkdir(parents=True)
    ids = [conversation_id("a", b"%d" % n, 0) for n in range(prompts)]
    lines = [Prompt(ids[n], n, "short", [], [1] * (10 + n), where=f"x:{n + 1}") for n in range(prompts)]
    lines[5] = Prompt(ids[5], 5, "short", [], [], fault="refused")
    files.prompts.write_bytes(b"".join(encode(p) + b"\n" for p in lines))
    if answered:
        answers = [
            Completion(ids[n], n, 0, [7] * tokens, 10 + n, tokens, Finish.STOP, 7, None, 1.0, "e", 1000)
            for n, tokens in answered.items()
        ]
        files.journal.write_bytes(b"".join(encode(a) + b"\n" for a in answers))
    return folder


def look(folder: RunFolder) -> Seen:
    found = seen(folder, RECIPE.datasets[0])
    assert found is not None
    return found


def test_prompts_alone(tmp_path: Path) -> None:
    found = look(run(tmp_path / "r", {}))
    assert (len(found.prompts), found.longest, found.longest_where) == (59, 69, "x:60")
    assert found.answers is None
    assert seen(RunFolder(tmp_path / "none"), RECIPE.datasets[0]) is None


def test_an_unbroken_prefix_is_fair(tmp_path: Path) -> None:
    """Of 40 answers in a row and two more that came early, the 40 say how long answers are."""
    found = look(run(tmp_path / "r", dict.fromkeys(range(40), 100) | {50: 1, 51: 1}))
    assert found.answers and (found.answers.seen, found.answers.mean, found.early) == (40, 100, False)
    assert found.done == 4002


def test_what_came_first_is_said_to_be_short(tmp_path: Path) -> None:
    found = look(run(tmp_path / "r", {0: 100, 2: 50, 9: 30}))
    assert found.answers and (found.answers.seen, found.answers.mean, found.early) == (3, 60, True)
    (demand,) = demands(RECIPE, lambda _: found)
    assert demand.answers_from == "3 first answers"


def test_where_each_figure_comes_from(tmp_path: Path) -> None:
    (nothing,) = demands(RECIPE, lambda _: None)
    assert (nothing.prompt, nothing.prompt_from, nothing.answers_from) == (PROMPT, "assumed", "assumed")
    assert nothing.answers.mean == pytest.approx(min(ANSWER, 500))
    assert (nothing.needed, nothing.enough) == (20, None)
    given = RECIPE.model_copy(update={"plan": RECIPE.plan.changed({"answers": {"A": 250}, "prompts": {"a": 33}})})
    (by_hand,) = demands(given, lambda _: None)
    assert (by_hand.prompt, by_hand.needed, by_hand.answers_from) == (33, 40, "given")
    (observed,) = demands(RECIPE, lambda _: look(run(tmp_path / "r", dict.fromkeys(range(60), 100))))
    assert (observed.prompt_from, observed.answers_from, observed.enough) == ("prepared", "60 answers", False)
    assert observed.needed == 59, "the budget needs 100 prompts, and there are no more"
    assert observed.left == 0


def test_loads(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    lines: list[Any] = [{"load": {"running": 8, "generation_rate": r, "kv_total": 9}} for r in (90, 100, 110)]
    lines += [{"load": {"running": 16, "generation_rate": 150, "kv_total": 9}}] * 3
    lines += [{"load": {"running": 20, "generation_rate": 1, "kv_total": 9}}]
    lines += [{"load": {"running": 30, "generation_rate": 1}}] * 3
    lines += [{"load": None}, {"load": {"running": 0, "generation_rate": 5}}, {"other": 1}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "torn {")
    assert loads(path) == [(8, 100), (16, 150)]
    assert loads(tmp_path / "none") == []


def test_the_pace_of_a_run_as_a_whole(tmp_path: Path) -> None:
    """60 answers of 100 tokens that took a second each, 8 at once: 800 tokens a second."""
    folder = run(tmp_path / "r", dict.fromkeys(range(60), 100))
    folder.load.write_text('{"in_flight": 2}\n' + '{"in_flight": 8}\n' * 5 + "{}\ntorn {")
    journal = folder.dataset("a").journal
    journal.write_bytes(journal.read_bytes() + b"torn {")
    assert pace(folder.load, [journal, tmp_path / "none"]) == (8, 800)
    assert pace(tmp_path / "none", [journal]) is None
    assert pace(folder.load, []) is None


def test_what_servers_said_is_a_start(tmp_path: Path) -> None:
    plan = Plan(tp=8)
    servers = [
        Identity("sglang", "a", kv_tokens=116_171, kv_dtype="auto", mem_fraction=0.85, tp=8),
        Identity("sglang", "a", kv_tokens=376_029, kv_dtype="fp8_e4m3", mem_fraction=0.90, tp=8),
        Identity("sglang", "b", kv_tokens=5, kv_dtype="auto", mem_fraction=0.85, tp=4),
        Identity("sglang", "c", kv_tokens=5, kv_dtype="mxfp8", mem_fraction=0.8, tp=8),
        Identity("vllm", "d", kv_tokens=5),
    ]
    path = tmp_path / "engines.json"
    path.write_bytes(encode(servers))
    found = starts(identities(path), plan)
    assert [(s.mem_fraction, s.tokens, s.kv) for s in found] == [(0.85, 116_171, "bf16"), (0.90, 376_029, "fp8")]
    assert identities(tmp_path / "none") == []


def started(**values: Any) -> Started:
    return Started(**({"time": "", "kind": "sglang", "model": "m", "tokens": 1000, "fraction": 0.8} | values))


def test_starts_that_serve_has_seen(tmp_path: Path) -> None:
    path = tmp_path / "starts.jsonl"
    lines = [
        started(),
        started(model="other"),
        started(kind="vllm"),
        started(tp=8),
        started(fraction=None),
        started(fraction=0.9, tokens=2000),
    ]
    path.write_bytes(b"".join(encode(line) + b"\n" for line in lines) + b'{"torn')
    assert launched(path, "sglang", "m", Plan()) == [lines[0], lines[-1]]
    assert launched(tmp_path / "none", "sglang", "m", Plan()) == []


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        ([started(), started(tokens=1001)], [(0.8, 1001)]),  # the last one of a setting
        ([started(), started(fraction=0.9, tokens=9)], [(0.8, 1000), (0.9, 9)]),
        ([started(fraction=0.9, tokens=9), started(free=5.0), started(free=5.01)], [(0.9, 9), (0.8, 1000)]),
        # others used the memory too: only what found as much as the last one
        ([started(fraction=0.7, free=4.0, tokens=9), started(free=5.0)], [(0.8, 1000)]),
        ([], []),
    ],
)
def test_which_of_them_calibrate(seen: list[Started], left: list[tuple[float, int]]) -> None:
    assert [(s.mem_fraction, s.tokens) for s in as_starts(seen)] == left
