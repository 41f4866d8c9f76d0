"""Which prompts are compared by, and what their answers' tool calls are worth."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftmill.compare.effects import Answer, Calls
from draftmill.compare.hear import Question
from draftmill.compare.questions import calls, of_files, of_run
from draftmill.errors import RunError
from draftmill.records import Finish
from draftmill.render import tokenizer as tokenizers
from draftmill.render.dialect import Dialect
from draftmill.render.template import ChatTemplate
from tests.cli.command import questions, write_jsonl
from tests.render.families import model
from tests.watch.folders import append, begin, completion, prompt_id


@pytest.fixture(scope="module")
def dialect(tokenizer_folder: Path) -> tuple[Any, Dialect]:
    loaded = tokenizers.load(str(tokenizer_folder))
    return loaded, Dialect(loaded, ChatTemplate(loaded, "2026-01-01"), {})


def test_a_file_in_any_order_gives_the_same_questions(tmp_path: Path, dialect: tuple[Any, Dialect]) -> None:
    rows = questions(30)
    one = write_jsonl(tmp_path / "a.jsonl", rows)
    other = write_jsonl(tmp_path / "b.jsonl", rows[::-1])
    chosen = [of_files([str(path)], *dialect, 8, 0, 500).questions for path in (one, other)]
    assert chosen[0] == chosen[1] and len({q.id for q in chosen[0]}) == 8
    assert of_files([str(one)], *dialect, 8, 1, 500).questions != chosen[0]
    assert "<|im_start|>assistant" in dialect[0].decode(chosen[0][0].ids)


def test_of_several_files_each_gives_its_share(tmp_path: Path, dialect: tuple[Any, Dialect]) -> None:
    files = [str(write_jsonl(tmp_path / f"{n}.jsonl", questions(40)[n * 20 : n * 20 + 20])) for n in range(2)]
    chosen = of_files(files, *dialect, 10, 0, 500).questions
    of_first = {q.id for q in of_files(files[:1], *dialect, 20, 0, 500).questions}
    assert sum(q.id in of_first for q in chosen) == 5


def test_what_is_too_long_is_left_out_and_counted(tmp_path: Path, dialect: tuple[Any, Dialect]) -> None:
    long = [{"messages": [{"role": "user", "content": "word " * 300}]}] * 1
    path = str(write_jsonl(tmp_path / "a.jsonl", questions(5) + long))
    chosen = of_files([path], *dialect, 10, 0, 100)
    assert (len(chosen.questions), chosen.too_long) == (5, 1)
    with pytest.raises(RunError, match=r"there are 0 prompts to compare by.*6 have more than the 3 tokens"):
        of_files([path], *dialect, 10, 0, 3)


def test_a_runs_own_prompts_whatever_came_of_them(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 9}, {"name": "e", "prompts": 9})
    append(folder.dataset("d").journal, completion(0))
    chosen = of_run(tmp_path, (), 6, 0, 100).questions
    assert all(q.ids == [1, 2, 3] for q in chosen)
    assert sum(q.id in {prompt_id(n, "d") for n in range(9)} for q in chosen) == 3
    assert len(of_run(tmp_path, ("e",), 100, 0, 100).questions) == 9
    with pytest.raises(RunError, match="has no prompts of x"):
        of_run(tmp_path, ("x",), 5, 0, 100)


TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]


def test_calls_that_can_be_used() -> None:
    loaded, _, dialect = model("qwen3")
    asked = Question("a", loaded.encode(["hi"])[0], TOOLS)

    def answered(text: str, finish: Finish = Finish.STOP) -> Answer:
        return Answer(loaded.encode([text])[0], finish)

    call = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call><|im_end|>'
    answers = [
        answered(call % ("add", "{}")),
        answered(call % ("sub", "{}")),
        answered(call % ("add", "{")),
        answered("no call<|im_end|>"),
        answered('<tool_call>\n{"name": "add", "argu', Finish.LENGTH),
    ]
    found = calls([asked] * len(answers), answers, dialect)
    assert found == [Calls(1, 0), Calls(1, 1), Calls(1, 1), Calls(0, 0), Calls(0, 0)]
    assert calls([Question("a", [1], None)], answers[:1], dialect) is None


def test_a_model_that_is_not_shown_tools_has_no_calls(dialect: tuple[Any, Dialect]) -> None:
    asked = Question("a", [1], json.loads(json.dumps(TOOLS)))
    assert calls([asked], [Answer([5, 2], Finish.STOP)], dialect[1]) is None
