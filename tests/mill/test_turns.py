"""Conversations of several turns through the loop: prompts as a thinking family's template demands, budgets, stops."""

import asyncio
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.engines.protocol import Reply, Request
from draftmill.errors import TransportFault
from draftmill.ids import encode
from draftmill.ledger.order import conversation_id
from draftmill.ledger.rows import rows
from draftmill.mill import seat as seats
from draftmill.mill import work
from draftmill.mill.dialogue import Dialogue
from draftmill.mill.loop import Ending, Limits, Loop
from draftmill.recipe import Lane
from draftmill.records import Conversation, Finish, Message, Prompt
from draftmill.sources.history import asked, recorded
from tests.mill.scripted import Milled, ScriptedEngine
from tests.mill.test_dialogue import TOOLS, call, result, said, user
from tests.render import families
from tests.render.test_parse import spelt
from tests.render.test_turns import ANSWERS

GOLDEN = Path(__file__).parent / "golden"
RECORDING = [
    user("Is it warmer in Paris or in Zürich?"),
    said("", call("get_weather", "x", city="Zürich"), call("get_weather", "y", city="Paris")),
    result("17", "x"),
    result("21", "y"),
    said("", call("bash", "z", command="expr 21 - 17")),
    result("4", "z"),
    said("Paris."),
    user("And the date?"),
    said("", call("bash", "w", command="date")),
    result("Sat Jan 31", "w"),
    said("Saturday."),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_FIRST_DELAY", 0.005)
    monkeypatch.setattr(seats, "_PROBE_EVERY", (0.002, 0.01, 0.02))


class Talks(Milled):
    """A run of whole recorded conversations with one family's template."""

    def __init__(self, path: Path, name: str, recordings: list[list[Message]], history: Any = "served") -> None:
        super().__init__(path, {"a": []})
        model = families.plain_model(name)
        self.model = model
        self.dialogue = Dialogue(model.dialect, model.tokenizer, history)
        self.lanes = {"short": Lane(max_new_tokens=600)}
        self.vocab_size, self.stop_ids = model.tokenizer.size, tuple(model.dialect.markers.turn_ends)
        prompts = []
        for n, messages in enumerate(recordings):
            whole = asked(recorded({}, messages), "all")
            head, later = whole.messages, whole.later
            ids = model.ids(model.dialect.text(Conversation(head, TOOLS)))
            id = conversation_id("a", b"%d" % n, 0)
            prompts.append(Prompt(id, n, "short", head, ids, TOOLS, f"a.jsonl:{n + 1}", later=later))
        self.folder("a").prompts.write_bytes(b"".join(encode(p) + b"\n" for p in prompts))

    def rows(self) -> list[tuple[int, int, str, str]]:
        """(position, turn, prompt, answer) of every counting row."""
        decode = self.model.tokenizer.decode
        return [
            (r.position, r.turn, decode(r.input_ids[: r.prompt_tokens]), decode(r.input_ids[r.prompt_tokens :]))
            for r in rows(self.folder("a"), self.standing())
        ]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.folder("a").journal.read_bytes().splitlines()]


OPENING = {"qwen3": "<|im_start|>assistant\n", "kimi": "<|im_assistant|>assistant<|im_middle|><think>"}


class Actor(ScriptedEngine):
    """Answers turn ``n`` of a conversation with ``script(prompt's text, n)``, id by id, from where a prompt that holds
    a beginning leaves it; an abort gives what is there."""

    def __init__(self, run: Talks, family: str, script: Callable[[str, int], str], pause: float = 0.0) -> None:
        super().__init__(self._play)
        self.model = run.model
        self.gives_beginnings = True
        self.die_at = 1 << 60  # ids, in all
        self.grown = 0
        self._opening = run.model.ids(OPENING[family])
        self._family = family
        self._script = script
        self._pause = pause
        self._stops: dict[str, asyncio.Event] = {}

    async def abort(self, tag: str) -> bool:
        self._stops.setdefault(tag, asyncio.Event()).set()
        return True

    async def _play(self, request: Request) -> Reply:
        size, ids = len(self._opening), request.prompt_ids
        starts = [n for n in range(len(ids)) if ids[n : n + size] == self._opening]
        prompt = ids[: starts[-1] + size]
        whole = self.model.ids(spelt(self._family, self._script(self.model.tokenizer.decode(prompt), len(starts) - 1)))
        assert whole[: len(ids) - len(prompt)] == ids[len(prompt) :], "the beginning is not one of its own"
        stop, told = self._stops.setdefault(request.tag, asyncio.Event()), self.listeners[request.tag]
        new: list[int] = []
        for id in whole[len(ids) - len(prompt) :]:
            new = [*new, id]
            self.grown += 1
            if told:
                told(new)
            if stop.is_set():
                return Reply(new, len(ids), len(new), Finish.ABORT)
            if self.grown == self.die_at:
                raise TransportFault("gone")
            await asyncio.sleep(self._pause)
        return Reply(new, len(ids), len(new), Finish.STOP, new[-1])


@pytest.mark.parametrize("family", ANSWERS)
def test_five_turns_with_a_parallel_call_row_by_row(tmp_path: Path, family: str) -> None:
    run = Talks(tmp_path, family, [RECORDING])
    engine = Actor(run, family, lambda _, turn: ANSWERS[family][turn])
    assert run.run(engine) is Ending.DONE
    tally = run.standing().tally()
    assert (tally.positions, tally.counting) == (1, 1) and tally.adds_up()
    written = "".join(f"======== row of turn {turn}\n{prompt}⟦{answer}⟧\n" for _, turn, prompt, answer in run.rows())
    golden = GOLDEN / f"five-turns-{family}.txt"
    if os.environ.get("REGOLD"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(written)
    assert written == golden.read_text()
    assert [line.get("more", False) for line in run.lines()] == [True] * 4 + [False]
    assert ["prompt_ids" in line for line in run.lines()] == [False] + [True] * 4


def test_a_conversation_ends_where_the_recording_does_not_fit(tmp_path: Path) -> None:
    run = Talks(tmp_path, "qwen3", [RECORDING, RECORDING[:1] + RECORDING[-5:]])

    def script(prompt: str, turn: int) -> str:
        return ANSWERS["qwen3"][turn] if turn == 0 else ANSWERS["qwen3"][3]  # another command than recorded

    assert run.run(Actor(run, "qwen3", script)) is Ending.DONE
    standing = run.standing()
    assert standing.ended == {"other calls": 1, "unrecorded calls": 1} and standing.tally().counting == 2
    assert [(position, turn) for position, turn, _, _ in run.rows()] == [(0, 0), (0, 1), (1, 0)]


def chats(count: int) -> list[list[Message]]:
    """Conversations of one to six answers."""
    return [
        [m for turn in range(1 + n % 6) for m in (user(f"Question {turn} of conversation {n}."), said("Yes."))]
        for n in range(count)
    ]


def chat_answer(prompt: str, turn: int) -> str:
    number = int(prompt.split("of conversation ")[1].split(".")[0])
    return "<think>\nHm.\n</think>\n\n" + f"word {number}-{turn} " * (1 + (7 * number + turn) % 13) + "■"


def undisturbed(path: Path, count: int) -> list[tuple[int, int, str, str]]:
    run = Talks(path, "qwen3", chats(count))
    assert run.run(Actor(run, "qwen3", chat_answer)) is Ending.DONE
    return run.rows()


def test_each_turn_has_the_history_of_its_own_answers(tmp_path: Path) -> None:
    found = undisturbed(tmp_path, 6)
    assert [(p, t) for p, t, _, _ in found] == [(p, t) for p in range(6) for t in range(1 + p % 6)]
    for position, turn, prompt, answer in found:
        assert f"word {position}-{turn} " in answer
        assert [n for n in range(6) if f"word {position}-{n} " in prompt] == list(range(turn))
        assert "Hm." not in prompt  # reasoning of finished turns is dropped by this template


def test_a_recorded_history_is_the_dataset_s_own(tmp_path: Path) -> None:
    run = Talks(tmp_path, "qwen3", [RECORDING], history="recorded")
    assert run.run(Actor(run, "qwen3", lambda _, turn: f"<think>\n{turn}\n</think>\n\nNo.■")) is Ending.DONE
    found = run.rows()
    assert [turn for _, turn, _, _ in found] == list(range(5))
    assert not any("No." in prompt for _, _, prompt, _ in found) and "expr 21 - 17" in found[2][2]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kill", [True, False])
def test_stops_inside_conversations_change_no_row(tmp_path: Path, seed: int, kill: bool) -> None:
    expected = undisturbed(tmp_path / "calm", 12)
    run = Talks(tmp_path / "stopped", "qwen3", chats(12))
    draw = random.Random(seed)

    class Killed(Exception):
        pass

    async def stop(loop: Loop) -> None:
        await asyncio.sleep(draw.uniform(0.005, 0.05))
        if kill:
            loop.crashed = lambda task: None  # type: ignore[method-assign]
            loop._crash = Killed()
            loop._calls, calls = {}, loop._calls  # nothing of what is in flight is heard of any more
            for task in calls:
                task.remove_done_callback(loop._landed)
                task.cancel()
            loop.stop(Ending.FAILED)
        else:
            loop.stop(Ending.INTERRUPTED)

    limits = Limits(drain=5, checkpoint=0.004 if seed % 2 else None)
    rounds = 0
    while rounds < 30:
        rounds += 1
        try:
            ending = run.run(Actor(run, "qwen3", chat_answer, 0.0005), limits=limits, during=stop)
        except Killed:
            ending = Ending.FAILED
        assert run.standing().tally().adds_up()
        if ending is Ending.DONE:
            break
    else:
        assert run.run(Actor(run, "qwen3", chat_answer)) is Ending.DONE
    assert rounds > 1 and run.rows() == expected
    whole = [(line["position"], line["turn"]) for line in run.lines() if not line.get("partial")]
    assert len(whole) == len(set(whole)) == len(expected)


def test_an_engine_that_dies_inside_a_turn_goes_on_there(tmp_path: Path) -> None:
    expected = undisturbed(tmp_path / "calm", 12)
    run = Talks(tmp_path / "died", "qwen3", chats(12))
    engine = Actor(run, "qwen3", chat_answer)
    engine.die_at = 400
    assert run.run(engine, limits=Limits(checkpoint=60, patience=5)) is Ending.DONE
    assert run.rows() == expected and run.standing().continued == 1


def test_a_budget_counts_whole_conversations(tmp_path: Path) -> None:
    run = Talks(tmp_path, "qwen3", chats(12))
    assert run.run(Actor(run, "qwen3", chat_answer)) is Ending.DONE
    by_position: dict[int, int] = {}
    for line in run.lines():
        by_position[line["position"]] = by_position.get(line["position"], 0) + line["completion_tokens"]
    budget = sum(by_position[n] for n in range(4)) + 1
    run.datasets["a"] = run.datasets["a"].model_copy(update={"budget": budget})
    assert {position for position, _, _, _ in run.rows()} == {0, 1, 2, 3, 4}
    tally = run.standing().tally()
    assert (tally.counting, tally.surplus) == (5, 7) and tally.counting_tokens == sum(by_position[n] for n in range(5))
    everything = run.datasets["a"].model_copy(update={"budget": 10**9, "budget_counts": "all"})
    run.datasets["a"] = everything
    assert run.standing().tally().counting_tokens == sum(
        line["completion_tokens"] + line["prompt_tokens"] for line in run.lines()
    )


def test_a_budget_stops_dispatch_near_its_cut(tmp_path: Path) -> None:
    run = Talks(tmp_path, "qwen3", chats(200))
    run.datasets["a"] = run.datasets["a"].model_copy(update={"budget": 6000})
    assert run.run(Actor(run, "qwen3", chat_answer)) is Ending.DONE
    tally = run.standing().tally()
    assert tally.owed == 0 and tally.counting_tokens >= 6000 and tally.surplus <= 6 and tally.not_needed > 50


def test_a_later_turn_that_fits_nowhere_ends_its_conversation(tmp_path: Path) -> None:
    run = Talks(tmp_path, "qwen3", chats(6))
    engine = Actor(run, "qwen3", chat_answer)
    engine._identity = msgspec.structs.replace(engine._identity, max_prompt=420)
    assert run.run(engine) is Ending.DONE
    standing = run.standing()
    tally = standing.tally()
    assert tally.counting == 6 and tally.error == tally.owed == 0 and standing.ended["too_long"] > 0
    failures = [json.loads(line) for line in run.folder("a").errors.read_bytes().splitlines()]
    assert len(failures) == standing.ended["too_long"] and all(f["turn"] > 0 for f in failures)
    assert "the engine takes 420" in failures[0]["reason"]
    assert run.standing(retry_errors=True).tally().owed == len(failures)
    assert run.run(Actor(run, "qwen3", chat_answer)) is Ending.DONE  # nothing is owed: they have ended


def test_a_turn_that_the_template_refuses_ends_its_conversation(tmp_path: Path) -> None:
    run = Talks(tmp_path, "qwen3", [[user("a of conversation 0."), said("b"), user("nothing")]])
    prompts = run.folder("a").prompts
    prompts.write_bytes(prompts.read_bytes().replace(b'"nothing"', b"null"))
    run.run(Actor(run, "qwen3", chat_answer))
    assert [(p, t) for p, t, _, _ in run.rows()] == [(0, 0)] and run.standing().ended == {"render": 1}
