"""Whole runs against the real llama.cpp server, as a user starts them."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from draftmill.journal.folder import RunFolder
from draftmill.journal.lock import locked
from draftmill.mill import run as mill_run
from draftmill.mill.roster import Roster
from draftmill.records import Conversation
from draftmill.render import tokenizer
from draftmill.render.template import ChatTemplate
from tests.cli.command import (
    KEY,
    command,
    draftmill,
    environment,
    in_process,
    questions,
    read_jsonl,
    with_file_limit,
    write_jsonl,
    write_recipe,
)
from tests.conftest import EmbeddedServer

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("few_heard")]


@pytest.fixture
def recipe(
    tmp_path: Path, embedded_server: EmbeddedServer, tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Two small datasets against the shared server, reached by URL and key."""
    monkeypatch.setenv(KEY, embedded_server.key)
    write_jsonl(tmp_path / "chat.jsonl", questions(14))
    write_jsonl(tmp_path / "turns.jsonl", [{"turns": [f"Say {n} in French.", "And in Welsh."]} for n in range(6)])
    return write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=[{"url": embedded_server.url, "api_key_env": KEY}],
        lanes={"short": {"max_new_tokens": 8}},
        datasets=[{"name": "chat", "source": "chat.jsonl"}, {"name": "turns", "source": "turns.jsonl"}],
    )


def change(recipe: Path, **values: Any) -> Path:
    return write_recipe(recipe, **(json.loads(recipe.read_text()) | values))


def test_prompts_become_token_exact_rows(recipe: Path, small_model: Path) -> None:
    out = recipe.parent / "run"
    done = draftmill("run", recipe, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["datasets"]
    assert figures["chat"]["counting"] == 14 and figures["turns"]["counting"] == 6
    assert all(d["adds_up"] for d in figures.values())
    sum_line = "20 positions = 20 counting + 0 surplus + 0 passed through + 0 error + 0 owed + 0 not needed"
    assert sum_line in done.stderr
    loaded = tokenizer.load(str(small_model))
    template = ChatTemplate(loaded, "2000-01-01")
    for name in ("chat", "turns"):
        prompts = {p["id"]: p for p in read_jsonl(out / name / "prompts.jsonl")}
        journal = {c["id"]: c for c in read_jsonl(out / name / "raw_responses.jsonl")}
        rows = read_jsonl(out / name / "tokenized_data.jsonl")
        assert [r["position"] for r in rows] == list(range(len(prompts)))
        for row in rows:
            prompt, completion = prompts[row["id"]], journal[row["id"]]
            (rendered,) = loaded.encode([template.text(Conversation(prompt["messages"]), {})])
            cut = len(rendered)
            assert row["input_ids"][:cut] == rendered == prompt["prompt_ids"]
            assert row["input_ids"][cut:] == completion["output_ids"]
            assert row["loss_mask"] == [0] * cut + [1] * len(completion["output_ids"])
            assert completion["limit"] == 8 and completion["prompt_tokens"] == cut


def test_a_second_run_does_nothing_and_an_export_takes_its_rows(recipe: Path) -> None:
    out = recipe.parent / "run"
    assert in_process("run", recipe, "--out", out).returncode == 0
    before = (out / "chat" / "raw_responses.jsonl").read_bytes()
    again = in_process("run", recipe, "--out", out)
    assert again.returncode == 0 and "nothing to do" in again.stdout
    assert (out / "chat" / "raw_responses.jsonl").read_bytes() == before
    target = recipe.parent / "rows.jsonl"
    exported = in_process("export", out, "--to", target, "--only", "turns")
    assert exported.returncode == 0 and "6 rows" in exported.stdout
    rows = read_jsonl(target)
    assert len(rows) == 6 and all(len(r["input_ids"]) == len(r["loss_mask"]) for r in rows)
    unknown = in_process("export", out, "--only", "nope")
    assert unknown.returncode == 2 and "no dataset 'nope'; there is chat, turns" in unknown.stderr


def test_a_journal_that_is_gone_before_rows_were_built_is_not_drawn_again_in_silence(recipe: Path) -> None:
    """As a kill leaves it: no row, no stamp; but the last start has told of answers, as each does now and then."""
    out = recipe.parent / "run"
    assert in_process("run", recipe, "--out", out, "--only", "turns", "--limit", "2").returncode == 0
    folder = RunFolder(out).dataset("turns")
    for file in (folder.rows, folder.rows_stamp):
        file.unlink()
    folder.journal.write_bytes(b"")
    told = {"time": 1.0, "done": {"turns": {"answers": 2, "failed": 0, "tokens": 16, "growing": 0, "left": 0}}}
    with RunFolder(out).load.open("a") as file:
        print(json.dumps(told), file=file)
    done = in_process("run", recipe, "--out", out, "--only", "turns")
    gone = f"{folder.journal}: its answers are gone, and the last start told of 2"
    assert done.returncode == 1 and gone in done.stderr, done.stderr
    assert folder.journal.read_bytes() == b""
    folder.sent.unlink()
    again = in_process("run", recipe, "--out", out, "--only", "turns")
    assert again.returncode == 0 and len(read_jsonl(folder.rows)) == 6, again.stderr


def test_an_edited_answer_is_told_and_one_that_is_taken_out_is_drawn_again(recipe: Path) -> None:
    out = recipe.parent / "run"
    assert in_process("run", recipe, "--out", out, "--only", "turns").returncode == 0
    journal = out / "turns" / "raw_responses.jsonl"
    whole = journal.read_bytes()
    first, second, *others = read_jsonl(journal)
    write_jsonl(journal, [first, second | {"output_ids": [5] * second["completion_tokens"]}, *others])
    again = in_process("run", recipe, "--out", out, "--only", "turns")
    told = f"{journal}:2: was changed after the row of position {second['position']} had been built of it"
    assert again.returncode == 1 and told in again.stdout, again.stdout + again.stderr
    assert "the rows: " in again.stdout and "for a trainer" not in again.stdout
    exported = in_process("export", out, "--only", "turns")
    assert exported.returncode == 1 and told in exported.stderr
    assert in_process("verify", out, "--only", "turns").returncode == 1

    journal.write_bytes(whole.replace(whole.splitlines(keepends=True)[1], b""))
    drawn = in_process("run", recipe, "--out", out, "--only", "turns")
    assert drawn.returncode == 0 and "are no longer in its journal" in drawn.stderr, drawn.stdout + drawn.stderr
    assert len(read_jsonl(out / "turns" / "tokenized_data.jsonl")) == 6


def test_a_limit_does_the_first_prompts_and_shows_one(recipe: Path) -> None:
    out = recipe.parent / "run"
    done = in_process("run", recipe, "--out", out, "--limit", "3")
    assert done.returncode == 0, done.stderr
    assert [len(read_jsonl(out / n / "tokenized_data.jsonl")) for n in ("chat", "turns")] == [3, 3]
    assert "⟦" in done.stdout and "14 prompts owed" in done.stdout
    assert in_process("run", recipe, "--out", out).returncode == 0
    assert len(read_jsonl(out / "chat" / "tokenized_data.jsonl")) == 14


def test_settings_that_decide_the_data_may_not_change(recipe: Path) -> None:
    out = recipe.parent / "run"
    assert in_process("run", recipe, "--out", out, "--limit", "1").returncode == 0
    refused = in_process("run", change(recipe, sampling={"temperature": 0.5}, seed=3), "--out", out)
    assert refused.returncode == 1
    assert "seed: 0 → 3" in refused.stderr and "chat.sampling.temperature: 1.0 → 0.5" in refused.stderr
    change(recipe, sampling={}, seed=0)
    grown = in_process("run", recipe, "--out", out, "--max-new-tokens", "5", "--concurrency", "2", "--budget", "20")
    assert grown.returncode == 0, grown.stderr
    assert "continued with" in grown.stderr
    limits = [line["limit"] for line in read_jsonl(out / "chat" / "raw_responses.jsonl")]
    assert limits[0] == 8 and set(limits[1:]) == {5}


def test_more_samples_extend_the_order_and_a_changed_source_is_refused(recipe: Path) -> None:
    out, source = recipe.parent / "run", recipe.parent / "chat.jsonl"
    assert in_process("run", recipe, "--out", out, "--only", "chat", "--samples", "4").returncode == 0
    first = [p["id"] for p in read_jsonl(out / "chat" / "prompts.jsonl")]
    source.write_text("".join(reversed(source.read_text().splitlines(keepends=True))))  # order does not matter
    assert in_process("run", recipe, "--out", out, "--only", "chat", "--samples", "9").returncode == 0
    assert [p["id"] for p in read_jsonl(out / "chat" / "prompts.jsonl")][:4] == first
    assert len({line["id"] for line in read_jsonl(out / "chat" / "raw_responses.jsonl")}) == 9
    write_jsonl(source, questions(14)[5:])
    refused = in_process("run", recipe, "--out", out, "--only", "chat")
    assert refused.returncode == 1 and "its source changed since this run began" in refused.stderr
    assert len(read_jsonl(out / "chat" / "prompts.jsonl")) == 9


def test_a_second_process_is_told_who_holds_the_run(recipe: Path) -> None:
    out = recipe.parent / "run"
    out.mkdir()
    with locked(out / "lock"):
        second = in_process("run", recipe, "--out", out)
    assert second.returncode == 1 and f"process {os.getpid()} on" in second.stderr


def test_no_answer_is_lost_or_repeated_by_kills(recipe: Path) -> None:
    out = recipe.parent / "run"
    write_jsonl(recipe.parent / "chat.jsonl", questions(60))
    journal = out / "chat" / "raw_responses.jsonl"
    kept: list[bytes] = []
    for lines in (1, 8, 20, 33):
        with (recipe.parent / "log").open("wb") as log:
            process = subprocess.Popen(
                command("run", recipe, "--out", out, "--only", "chat"), stderr=log, env=environment()
            )
            while process.poll() is None and count_lines(journal) < lines:
                time.sleep(0.005)
            process.kill()
            process.wait()
        assert journal.read_bytes().splitlines(keepends=True)[: len(kept)] == kept
        with journal.open("ab") as file:
            file.write(b'{"id":"torn')  # what a kill in the middle of a write would leave
        kept = journal.read_bytes().splitlines(keepends=True)[:-1]
    done = in_process("run", recipe, "--out", out, "--only", "chat")
    assert done.returncode == 0, done.stderr
    assert journal.read_bytes().splitlines(keepends=True)[: len(kept)] == kept
    ids = [line["id"] for line in read_jsonl(journal)]
    assert sorted(ids) == sorted(p["id"] for p in read_jsonl(out / "chat" / "prompts.jsonl"))
    assert len(read_jsonl(out / "chat" / "tokenized_data.jsonl")) == 60


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_an_interrupt_says_how_to_go_on(recipe: Path) -> None:
    out = recipe.parent / "run"
    write_jsonl(recipe.parent / "chat.jsonl", questions(200))
    process = subprocess.Popen(
        command("run", recipe, "--out", out, "--concurrency", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    while process.poll() is None and count_lines(out / "chat" / "raw_responses.jsonl") < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    page, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert re.search(r"\d+ prompts? owed; go on with: draftmill run ", page)
    journal = read_jsonl(out / "chat" / "raw_responses.jsonl")
    assert len({line["id"] for line in journal}) == len(journal) >= 3
    assert read_jsonl(out / "events.jsonl")[-1]["message"] == "interrupted"


@pytest.mark.parametrize("late", [(Roster, "close"), (mill_run, "read_result")])
def test_an_interrupt_behind_the_last_answer_keeps_the_sum(
    recipe: Path, late: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(*late)

    def interrupted(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return real(*args)

    monkeypatch.setattr(*late, interrupted)
    done = in_process("run", recipe, "--out", recipe.parent / "run", "--only", "turns")
    assert done.returncode == 0, done.stderr
    assert "6 positions = 6 counting" in done.stdout and "interrupted" not in done.stdout + done.stderr
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_key_stands_nowhere(recipe: Path, embedded_server: EmbeddedServer) -> None:
    out = recipe.parent / "run"
    done = in_process("run", recipe, "--out", out, "--limit", "2")
    assert done.returncode == 0
    assert embedded_server.key not in done.stdout + done.stderr
    for file in out.rglob("*"):
        assert not file.is_file() or embedded_server.key.encode() not in file.read_bytes(), file


def test_a_full_disk_loses_nothing(recipe: Path) -> None:
    out = recipe.parent / "run"
    change(recipe, lanes={"short": {"max_new_tokens": 8, "concurrency": 1}})
    assert in_process("prepare", recipe, "--out", out, "--only", "turns").returncode == 0
    args = with_file_limit(command("run", recipe, "--out", out, "--only", "turns"), 900)
    full = subprocess.run(args, capture_output=True, text=True, env=environment(), timeout=120, check=False)
    assert full.returncode == 1, full.stderr
    assert "raw_responses.jsonl: cannot be written: File too large" in full.stderr
    assert "run the same command again" in full.stderr
    kept = read_jsonl(out / "turns" / "raw_responses.jsonl")
    assert 0 < len(kept) < 6
    assert in_process("run", recipe, "--out", out, "--only", "turns").returncode == 0
    assert read_jsonl(out / "turns" / "raw_responses.jsonl")[: len(kept)] == kept


def test_the_embedded_engine_is_brought_back_when_it_dies(
    recipe: Path, tmp_path: Path, embedded_server: EmbeddedServer
) -> None:
    out = tmp_path / "own"
    write_jsonl(recipe.parent / "chat.jsonl", questions(80))
    gguf = str(embedded_server.gguf)
    change(recipe, engines=[{"kind": "embedded", "gguf": gguf, "slots": 2, "context": 256}])
    process = subprocess.Popen(
        command("run", recipe, "--out", out, "--only", "chat"), stderr=subprocess.PIPE, text=True, env=environment()
    )
    while process.poll() is None and count_lines(out / "chat" / "raw_responses.jsonl") < 5:
        time.sleep(0.01)
    for server in children(process.pid):
        os.kill(server, signal.SIGKILL)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert len({line["id"] for line in read_jsonl(out / "chat" / "raw_responses.jsonl")}) == 80
    assert not (out / "chat" / "errors.jsonl").read_bytes()


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
