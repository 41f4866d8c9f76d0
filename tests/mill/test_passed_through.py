"""Rows that are passed through, in the loop: they are never sent, and count in their place."""

from pathlib import Path

import msgspec
import pytest

from draftmill.ids import encode
from draftmill.ledger.rows import refresh_rows
from draftmill.mill.loop import Ending
from draftmill.recipe import Dataset
from draftmill.records import Prompt
from tests.mill.scripted import Milled, ScriptedEngine, prompts

EVERY = 3  # of the prompts, every third is tokenized already
SUPERVISED = 2


def mixed(tmp_path: Path, count: int) -> Milled:
    run = Milled(tmp_path, {"a": prompts(count)})
    path = run.folder("a").prompts
    found = [msgspec.json.decode(line, type=Prompt) for line in path.read_bytes().splitlines()]
    for n in range(0, count, EVERY):
        found[n] = msgspec.structs.replace(found[n], loss_mask=[0, 1, 1])
    path.write_bytes(b"".join(encode(prompt) + b"\n" for prompt in found))
    return run


def test_the_mill_sends_only_what_is_owed(tmp_path: Path) -> None:
    run, engine = mixed(tmp_path, 30), ScriptedEngine()
    assert run.standing().tally().owed == 20
    assert run.run(engine) is Ending.DONE
    assert sorted(request.prompt_ids[0] - 1 for request in engine.requests) == [n for n in range(30) if n % EVERY]
    tally = run.standing().tally()
    assert (tally.counting, tally.passed_through, tally.owed) == (20, 10, 0) and tally.adds_up()
    again = ScriptedEngine()
    assert run.run(again) is Ending.DONE and not again.requests
    assert refresh_rows(run.folder("a"), run.standing()) == 30
    rows = [msgspec.json.decode(line) for line in run.folder("a").rows.read_bytes().splitlines()]
    assert [row["position"] for row in rows] == list(range(30))
    assert [row["finish_reason"] is None for row in rows] == [n % EVERY == 0 for n in range(30)]


@pytest.mark.parametrize("budget", [1, 2, 3, 17, 50])
def test_they_fill_a_budget_in_their_place(tmp_path: Path, budget: int) -> None:
    run = mixed(tmp_path, 60)
    run.datasets["a"] = Dataset(name="a", source="x", budget=budget)
    assert run.run(ScriptedEngine(), concurrency=1) is Ending.DONE
    standing = run.standing()
    tally = standing.tally()
    tokens = [standing.tokens(position) for position, _ in standing.counting()]
    assert tokens[::EVERY] == [SUPERVISED] * len(tokens[::EVERY])
    assert sum(tokens) >= budget > sum(tokens[:-1]) and (tally.owed, tally.surplus) == (0, 0)
    assert tally.adds_up() and not standing.exhausted()
