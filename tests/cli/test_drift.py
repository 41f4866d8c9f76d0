"""``draftmill drift``, and what a run tells of it."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.cli.drift import sentence
from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.rows import refresh_rows
from draftmill.ledger.standing import load_standing
from draftmill.mill.drift import Figure
from draftmill.records import Completion, Conversation, Finish
from draftmill.render import tokenizer as tokenizers
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer
from tests.cli.command import KEY, in_process, questions, read_jsonl, write_jsonl, write_recipe
from tests.conftest import EmbeddedServer
from tests.render import families

TRIM = ("+ message['content'] +", "+ message['content'] | trim +")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


@pytest.fixture
def trimming(tmp_path: Path, tokenizer_folder: Path) -> Path:
    """The small model's tokenizer, with a template that trims white space."""
    folder = tmp_path / "trimming"
    shutil.copytree(tokenizer_folder, folder)
    template = folder / "chat_template.jinja"
    assert TRIM[0] in template.read_text()
    template.write_text(template.read_text().replace(*TRIM))
    return folder


def figures(*args: str | Path) -> tuple[dict[str, Any], str]:
    """What ``--json`` prints of each dataset, and what is told."""
    done = in_process("drift", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


# a run


def differing(rows: list[dict[str, Any]], loaded: Tokenizer, messages: Any) -> list[str]:
    """The ids of the rows whose text, rendered once more, has other ids: by hand, without any of ``render.drift``."""
    template, end, found = ChatTemplate(loaded, "2000-01-01"), loaded.special["<|im_end|>"], []
    for row in rows:
        cut = row["prompt_tokens"]
        answer = [id for id in row["input_ids"][cut:] if id != end]
        text = template.finished(Conversation([*messages[row["id"]], said(loaded.decode(answer))]), {})
        again = loaded.encode([text])[0][: cut + len(answer)]
        if again != row["input_ids"][:cut] + answer:
            found.append(row["id"])
    return found


@pytest.mark.embedded
@pytest.mark.usefixtures("few_heard")
def test_the_share_of_a_run_is_the_one_counted_by_hand(
    tmp_path: Path, trimming: Path, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 answers, hot enough that many leave the tokenizer's own way of cutting words, and cut behind white space."""
    monkeypatch.setenv(KEY, embedded_server.key)
    write_jsonl(tmp_path / "chat.jsonl", [{"messages": [user(f"Say {n}.")]} for n in range(200)])
    out = tmp_path / "run"
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(trimming),
        engines=[{"url": embedded_server.url, "api_key_env": KEY}],
        sampling={"temperature": 1.5},
        lanes={"short": {"max_new_tokens": 6}},
        datasets=[{"name": "chat", "source": "chat.jsonl"}],
    )
    done = in_process("run", recipe, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["datasets"]["chat"]["drift"]

    messages = {prompt["id"]: prompt["messages"] for prompt in read_jsonl(out / "chat" / "prompts.jsonl")}
    rows = read_jsonl(out / "chat" / "tokenized_data.jsonl")
    by_hand = differing(rows, tokenizers.load(str(trimming)), messages)
    assert 0 < len(by_hand) < len(rows) == 200
    assert (found["answers"], found["drifted"]) == (200, len(by_hand))
    assert found["drifted"] == sum(found["reasons"].values())
    assert set(found["reasons"]) == {"tokenisation", "white space"}
    assert f"chat: {len(by_hand)} of 200 answers ({len(by_hand) / 200:.1%}) would come back as other ids" in done.stderr
    assert "the rows hold the generated ids themselves" in done.stderr

    whole, told = figures(out)
    assert whole["chat"]["rows"] == 200 and whole["chat"]["notes"] == []
    assert {key: whole["chat"][key] for key in found} == found
    assert f"{len(by_hand) / 200:.1%}" in told and "generated  " in told
    assert figures(out, "--sample", "20", "--only", "chat")[0]["chat"]["answers"] == 20

    kept = (out / "chat" / "drift.json").read_bytes()
    assert json.loads(kept)["figure"] == found
    monkeypatch.setattr(tokenizers, "load", None)  # a start with nothing to do needs no tokenizer
    again = in_process("run", recipe, "--out", out, "--json")
    assert again.returncode == 0 and "nothing to do" in again.stderr
    assert json.loads(again.stdout)["datasets"]["chat"]["drift"] == found
    (out / "chat" / "drift.json").unlink()
    unknown = in_process("run", recipe, "--out", out, "--json")
    assert unknown.returncode == 0, "what cannot be worked out fails no run"
    assert json.loads(unknown.stdout)["datasets"]["chat"]["drift"] is None
    assert "drift      chat: could not be worked out" in unknown.stderr


def test_an_answer_that_was_edited_after_its_row_was_built_is_told_and_counted_as_it_stands(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    write_jsonl(tmp_path / "chat.jsonl", questions(3))
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=["http://127.0.0.1:9"],
        datasets=[{"name": "chat", "source": "chat.jsonl"}],
    )
    assert in_process("prepare", recipe, "--out", tmp_path / "run").returncode == 0
    folder = DatasetFolder(tmp_path / "run" / "chat")
    tokens = tokenizers.load(str(tokenizer_folder))
    (answer,) = tokens.encode(["Paris<|im_end|>"])
    (other,) = tokens.encode(["Rome<|im_end|>"])
    size, finish = len(answer), Finish.STOP
    lines = [
        Completion(p["id"], n, 0, answer, len(p["prompt_ids"]), size, finish, answer[-1], 0, 0.0, "e", 99)
        for n, p in enumerate(read_jsonl(folder.prompts))
    ]
    folder.journal.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    refresh_rows(folder, load_standing(folder))
    assert figures(tmp_path / "run")[0]["chat"]["notes"] == []

    whole = folder.journal.read_bytes().splitlines(keepends=True)
    edited = encode(msgspec.structs.replace(lines[1], output_ids=other, completion_tokens=len(other))) + b"\n"
    folder.journal.write_bytes(whole[0] + edited + whole[2])
    found, told = figures(tmp_path / "run")
    (note,) = found["chat"]["notes"]
    assert found["chat"]["answers"] == 3
    assert note.startswith(f"{folder.journal}:2: was changed after the row of position 1 had been built of it")
    assert "restore that line" in note and f"note       chat: {folder.journal}:2: was changed" in told
    assert figures(tmp_path / "run", "--sample", "1")[0]["chat"]["notes"] == []


# what is said


FIGURE = Figure(answers=250, drifted=10, reasons={"tokenisation": 9, "text": 1}, before=0, median=None, examples=[])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "10 of 250 answers (4.0%) would come back as other ids: 9 tokenisation, 1 text"),
        (
            {"median": 0},
            "10 of 250 answers (4.0%) would come back as other ids: 9 tokenisation, 1 text; the median one",
        ),
        ({"before": 2, "median": 1234}, "2 differ in the prompt already; the median one from id 1,234 on"),
    ],
)
def test_a_figure_in_words(values: dict[str, Any], said: str) -> None:
    assert said in sentence(msgspec.structs.replace(FIGURE, **values))


# a text dataset


def test_a_text_dataset(tmp_path: Path, tokenizer_folder: Path, trimming: Path) -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    rows: list[Any] = [
        {"messages": [user("a"), said("b"), user("c"), said("d \n")]},
        {"messages": [user("a"), said("", tool_calls=calls), {"role": "tool", "content": "r"}, said(" e")]},
        {"messages": [user("a")]},
        {"messages": [said("b")]},
    ]
    source = write_jsonl(tmp_path / "chat.jsonl", rows)
    found, _ = figures(source, "--model", tokenizer_folder)
    plain = found[str(source)]
    assert (plain["rows"], plain["answers"], plain["drifted"]) == (4, 3, 0)
    assert plain["unjudged"] == {"tool calls": 1}
    assert plain["notes"] == [
        f"rows that cannot be read: 1; the first: {source}:4: no user or tool message",
        "rows without a recorded answer: 1",
    ]
    found, told = figures(source, "--model", trimming)
    trimmed = found[str(source)]
    assert (trimmed["answers"], trimmed["drifted"], trimmed["reasons"]) == (3, 2, {"white space": 2})
    assert [(e["where"], e["at"]) for e in trimmed["examples"]] == [
        (f"{source}:1, message 4", 1),
        (f"{source}:2, message 4", 0),
    ]
    assert trimmed["examples"][0]["generated"] == " \n<|im_end|>"
    assert "2 of 3 answers (66.7%) would come back as other ids: 2 white space" in told
    assert f"{source}:1, message 4, from id 1: white space" in told and "1 tool calls" in told


def test_the_answers_of_an_alpaca_file_are_found(tmp_path: Path, tokenizer_folder: Path) -> None:
    rows = [{"instruction": "Add.", "input": f"{n} 1", "output": f"{n + 1}"} for n in range(3)]
    source = write_jsonl(tmp_path / "alpaca.jsonl", rows)
    found, _ = figures(source, "--model", tokenizer_folder)
    assert found[str(source)]["answers"] == 3


def test_a_sample_of_a_text_dataset_is_the_same_whatever_the_order(tmp_path: Path, trimming: Path) -> None:
    rows = [{"messages": [user(f"a{n}"), said(f"b{n} ")]} for n in range(20)]
    ways = (rows, rows[::-1])
    sources = [write_jsonl(tmp_path / f"{n}.jsonl", way) for n, way in enumerate(ways)]
    chosen = []
    for source in sources:
        (found,) = figures(source, "--model", trimming, "--sample", "5")[0].values()
        assert (found["rows"], found["answers"], found["drifted"]) == (20, 5, 5)
        chosen.append([e["generated"] for e in found["examples"]])
    lines = {json.dumps(row): row for row in rows}
    assert len(lines) == 20
    assert chosen[0] == chosen[1]


def test_the_variables_of_the_template_decide(tmp_path: Path) -> None:
    families.plain_model("qwen3").tokenizer.save(tmp_path / "qwen3")
    source = write_jsonl(tmp_path / "chat.jsonl", [{"messages": [user("a"), said("b")]}])
    found, told = figures(source, "--model", tmp_path / "qwen3")
    assert found[str(source)]["reasons"] == {"text": 1} and "--template enable_thinking=false" in told
    found, told = figures(source, "--model", tmp_path / "qwen3", "--template", "enable_thinking=false")
    assert found[str(source)]["drifted"] == 0 and "--template" not in told


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "is needed for a dataset"),
        (["--model", "MODEL", "--only", "a"], 2, "it names a dataset of a run"),
        (["--model", "MODEL", "--sample", "0"], 2, "is not a count"),
        (["--model", "MODEL", "--template", "thinking"], 2, "is not of the form name=value"),
        (["--model", "MODEL", "--template", "tools=1"], 2, "tools cannot be set here"),
        (["--model", "MODEL", "--template", "enable=1"], 1, "the chat template reads no such variable"),
        (["--model", "MODEL", "--format", "sharegp"], 2, "did you mean sharegpt?"),
        (["--model", "no/such/model"], 1, "no such tokenizer directory"),
        (["--model", "MODEL"], 1, "there is no answer of which it could be said"),
    ],
)
def test_what_cannot_be_done(
    tmp_path: Path, tokenizer_folder: Path, options: list[str], code: int, message: str
) -> None:
    source = write_jsonl(tmp_path / "chat.jsonl", [{"messages": [user("a")]}])
    done = in_process("drift", source, *(str(tokenizer_folder) if o == "MODEL" else o for o in options))
    assert done.returncode == code, done.stderr
    assert message in " ".join((done.stdout + done.stderr).replace("│", " ").split())


def test_a_folder_without_a_run_and_a_run_with_options_of_a_dataset(tmp_path: Path, tokenizer_folder: Path) -> None:
    write_jsonl(tmp_path / "chat.jsonl", questions(2))
    out = tmp_path / "run"
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=["http://127.0.0.1:9"],
        datasets=[{"name": "chat", "source": "chat.jsonl"}],
    )
    for model in ((), ("--model", tokenizer_folder)):
        empty = in_process("drift", tmp_path, *model)
        assert empty.returncode == 2 and f"{tmp_path}: holds no run" in empty.stderr and "*.jsonl" in empty.stderr
        nowhere = in_process("drift", tmp_path / "nowhere.jsonl", *model)
        assert nowhere.returncode == 2 and "nowhere.jsonl: no such file or folder" in nowhere.stderr
    assert in_process("prepare", recipe, "--out", out).returncode == 0
    foreign = in_process("drift", out, "--model", tokenizer_folder)
    assert foreign.returncode == 2 and "a run has its own" in foreign.stderr
    unknown = in_process("drift", out, "--only", "nope")
    assert unknown.returncode == 2 and "no dataset 'nope'; there is chat" in unknown.stderr
    nothing = in_process("drift", out)
    assert nothing.returncode == 1 and "there is no answer of which it could be said" in nothing.stdout
