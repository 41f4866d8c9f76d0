"""One rule for all verbs: what was asked for is on stdout, with --json its JSON alone; all else is on stderr."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from draftmill.cli.app import app
from tests.cli.command import in_process, write_jsonl, write_recipe
from tests.plan import reference
from tests.render.tiny import END, directory
from tests.watch.folders import append, completion


class Case(NamedTuple):
    """The words after the verb, what its page says, and what it says beside that."""

    words: Callable[[Path], list[str | Path]]
    page: str
    beside: str = ""
    code: int = 0


CASES = {
    "init": Case(lambda at: [at / "new.yaml"], "written"),
    "plan": Case(lambda at: [reference.recipe(at, engine="sglang"), "--ask"], "KV cache", "absent"),
    "prepare": Case(lambda at: [at / "recipe.yaml", "--out", at / "other"], "generate with: ", "prompts "),
    "adopt": Case(lambda at: [at / "old", at / "run"], "left out", code=1),
    "run": Case(lambda at: [at / "recipe.yaml", "--out", at / "other"], "states ", "rows, passed through"),
    "monitor": Case(lambda at: [at / "run", "--once"], "100%"),
    "report": Case(lambda at: [at / "run"], "report.html"),
    "control": Case(lambda at: [at / "run", "--pause"], "is not on"),
    "drift": Case(lambda at: [at / "text.jsonl", "--model", at / "model"], "dataset ", code=1),
    "verify": Case(lambda at: [at / "rows.jsonl"], "checks "),
    "diff": Case(lambda at: [at / "run", at / "run"], "nothing differs"),
    "export": Case(lambda at: [at / "run", "--to", at / "out.jsonl"], "written "),
}
# tests of their own have these, which need an engine for longer; quickstart says what run says
ELSEWHERE = {"compare", "serve", "quickstart"}
VERBS = {command.callback.__name__: command.callback for command in app.registered_commands if command.callback}


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Rows that are passed through, so that no engine is needed: a run of them, and what an older one left."""
    rows = [{"input_ids": [n, 7, END], "loss_mask": [0, 1, 1]} for n in range(12)]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    write_jsonl(tmp_path / "text.jsonl", [{"messages": [{"role": "user", "content": "hi"}]}])
    write_recipe(
        tmp_path / "recipe.yaml",
        model=str(directory(tmp_path / "model")),
        engines=["http://127.0.0.1:9"],
        datasets=[{"name": "A1", "source": "rows.jsonl"}],
    )
    assert in_process("run", tmp_path / "recipe.yaml", "--out", tmp_path / "run").returncode == 0
    (tmp_path / "run" / "lock").unlink()  # it names this very process, which lives
    append(tmp_path / "old" / "A1" / "raw_responses.jsonl", completion(0, dataset="A1"))
    return tmp_path


def test_every_verb_is_held_to_it() -> None:
    assert CASES.keys() | ELSEWHERE == VERBS.keys()


@pytest.mark.parametrize("verb", CASES)
def test_the_page_is_on_stdout_and_all_else_on_stderr(verb: str, at: Path) -> None:
    case = CASES[verb]
    done = in_process(verb, *case.words(at))
    assert (done.returncode, case.page in done.stdout, case.page in done.stderr) == (case.code, True, False), done
    assert case.beside in done.stderr and (not case.beside or case.beside not in done.stdout), done


@pytest.mark.parametrize("verb", [verb for verb in CASES if "json" in inspect.signature(VERBS[verb]).parameters])
def test_json_stands_alone_on_stdout(verb: str, at: Path) -> None:
    case = CASES[verb]
    done = in_process(verb, *case.words(at), "--json")
    assert json.loads(done.stdout) and done.returncode == case.code, done
    assert verb == "monitor" or case.page in done.stderr, done


@pytest.mark.parametrize("verb", CASES)
def test_a_fault_is_on_stderr_alone(verb: str, at: Path) -> None:
    """A folder that is a file, whatever the verb takes."""
    wrong: list[str | Path] = [at / "rows.jsonl" / "nowhere"] * sum(
        parameter.default is inspect.Parameter.empty for parameter in inspect.signature(VERBS[verb]).parameters.values()
    )
    done = in_process(verb, *(wrong or [at / "rows.jsonl" / "nowhere"]))
    assert done.returncode in (1, 2) and done.stdout == "" and done.stderr, done
