"""``draftmill serve`` and ``run --serve`` as a user runs them, on a real llama.cpp server."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftmill.serve.replica import free_port
from tests.cli.command import command, draftmill, environment, questions, read_jsonl, write_jsonl, write_recipe
from tests.serve.processes import alive, below, until, with_words

pytestmark = pytest.mark.embedded

PROMPTS = 40


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def recipe(tmp_path: Path, small_model: Path, port: int) -> Path:
    write_jsonl(tmp_path / "chat.jsonl", questions(PROMPTS))
    return write_recipe(
        tmp_path / "r.yaml",
        model=str(small_model),
        engines=[{"url": f"http://127.0.0.1:{port}"}],
        sampling={"temperature": 0.0},
        lanes={"short": {"max_new_tokens": 16}},
        datasets=[{"name": "chat", "source": "chat.jsonl"}],
        plan={"engine": "llamacpp", "slots": 2, "context": 1024, "options": "-t 1"},
    )


def events(run: Path) -> list[tuple[str, str]]:
    path = run / "serve" / "events.jsonl"
    return [(line["kind"], line["message"]) for line in read_jsonl(path)] if path.exists() else []


@pytest.fixture
def serving(recipe: Path, tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    words = command("serve", recipe, "--out", tmp_path / "run")
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(lambda: "KV cache" in dict(events(tmp_path / "run")) or process.poll() is not None)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_it_serves_until_a_signal_and_leaves_nothing(
    serving: "subprocess.Popen[str]", tmp_path: Path, port: int, number: int, code: int
) -> None:
    everything = below(serving.pid)
    assert len(with_words("--port", str(port))) == 1 and len(everything) >= 2  # the guardian too
    serving.send_signal(number)
    page, said = serving.communicate(timeout=60)
    assert (serving.returncode, page) == (code, ""), said
    assert not any(map(alive, everything))
    assert "2,048 tokens: just as planned" in said and f"serving    http://127.0.0.1:{port}" in said
    assert events(tmp_path / "run")[-1] == ("ended", "by us; nothing of it is left")


def test_nothing_is_left_where_draftmill_is_killed(serving: "subprocess.Popen[str]", port: int) -> None:
    everything = below(serving.pid)
    assert with_words("--port", str(port))
    serving.kill()
    serving.wait()
    until(lambda: not any(map(alive, everything)) and not with_words("--port", str(port)))


def test_a_server_that_cannot_be_started_is_one_message(recipe: Path, tmp_path: Path, port: int) -> None:
    done = draftmill("serve", recipe, "--out", tmp_path / "run", "--with", "options=--no-such-flag")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "error: server 0: flag: llama_server: error: unrecognized arguments: --no-such-flag" in done.stderr
    assert "  → this version does not know the option: mend `plan: options`" in done.stderr
    assert with_words("--port", str(port)) == []


def test_what_the_plan_refuses_is_not_started(recipe: Path, tmp_path: Path) -> None:
    done = draftmill("serve", recipe, "--out", tmp_path / "run", "--with", "kv=q8_0")
    assert done.returncode == 1 and "a KV cache in q8_0 changes what the target says" in done.stderr
    assert "--force starts it all the same" in done.stderr
    assert not (tmp_path / "run" / "serve").exists()
    run = draftmill("run", recipe, "--out", tmp_path / "run", "--serve", "--max-new-tokens", "2048")
    assert run.returncode == 1 and "the plan refuses this server" in run.stderr
    assert not (tmp_path / "run" / "serve").exists()


def test_a_run_whose_server_is_killed_half_way_has_every_row_once(recipe: Path, tmp_path: Path, port: int) -> None:
    run = tmp_path / "run"
    journal = run / "chat" / "raw_responses.jsonl"
    words = command("run", recipe, "--out", run, "--serve")
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            until(
                lambda: process.poll() is not None or (journal.exists() and len(journal.read_text().splitlines()) > 4)
            )
            assert process.poll() is None, process.communicate()[1]
            (server,) = with_words("--port", str(port))
            os.kill(server, signal.SIGKILL)
            page, said = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert (
        f"{PROMPTS} positions = {PROMPTS} counting + 0 surplus + 0 passed through + 0 error + 0 owed + 0 not needed"
        in page
    )
    assert [row["position"] for row in read_jsonl(run / "chat" / "tokenized_data.jsonl")] == list(range(PROMPTS))
    whole = Counter(line["id"] for line in map(json.loads, journal.read_text().splitlines()) if not line.get("partial"))
    assert sorted(whole.values()) == [1] * PROMPTS
    kinds = [kind for kind, _ in events(run)]
    assert kinds.count("died") == 1 and kinds.count("ready") == 2 and kinds[-1] == "ended"
    assert ("died", "signal: ended by SIGKILL") in events(run)
    told = [line["kind"] for line in read_jsonl(run / "events.jsonl")]
    assert "back" in told and with_words("--port", str(port)) == []
    again = draftmill("run", recipe, "--out", run, "--serve")  # nothing is owed: nothing is started
    assert again.returncode == 0 and [kind for kind, _ in events(run)] == kinds


def test_a_run_ends_with_the_reason_where_its_server_does_not_come_up(recipe: Path, tmp_path: Path) -> None:
    text = json.loads(recipe.read_text())
    text["plan"]["options"] = "--no-such-flag"
    recipe.write_text(json.dumps(text))
    done = draftmill("run", recipe, "--out", tmp_path / "run", "--serve")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "error: server 0: flag: llama_server: error: unrecognized arguments" in done.stderr
