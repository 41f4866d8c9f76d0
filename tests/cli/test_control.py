"""A run is steered while it is on, from another process."""

import contextlib
import json
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from draftmill.journal.lock import locked
from draftmill.ledger.told import paused_as
from tests.cli.command import (
    KEY,
    command,
    draftmill,
    environment,
    in_process,
    questions,
    read_jsonl,
    write_jsonl,
    write_recipe,
)
from tests.conftest import EmbeddedServer
from tests.watch.folders import begin


@pytest.fixture
def recipe(
    tmp_path: Path, embedded_server: EmbeddedServer, tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setenv(KEY, embedded_server.key)
    write_jsonl(tmp_path / "chat.jsonl", questions(24))
    return write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=[{"url": embedded_server.url, "api_key_env": KEY}],
        lanes={"short": {"max_new_tokens": 8}},
        datasets=[{"name": "chat", "source": "chat.jsonl", "budget": "100k"}],
    )


def wait(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


@contextmanager
def twin_of(url: str) -> Iterator[str]:
    """Another URL of the same server, of which nobody could tell that it is."""
    there = ("127.0.0.1", int(url.rpartition(":")[2]))

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(there) as server:
                back = threading.Thread(target=pipe, args=(server, self.request))
                back.start()
                pipe(self.request, server)
                back.join()

    def pipe(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as twin:
        twin.daemon_threads = True
        threading.Thread(target=twin.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{twin.server_address[1]}"
        twin.shutdown()


@pytest.mark.embedded
@pytest.mark.usefixtures("few_heard")
def test_a_run_is_steered_while_it_is_on(recipe: Path, embedded_server: EmbeddedServer) -> None:
    out = recipe.parent / "run"
    assert draftmill("run", recipe, "--out", out, "--limit", "1").returncode == 0  # its process is over: it is not on
    paused = in_process("control", out, "--pause", "--budget", "chat=60")
    assert paused.returncode == 0 and "is not on" in paused.stdout

    def events() -> str:
        return (out / "events.jsonl").read_text()

    with (
        twin_of(embedded_server.url) as twin,
        subprocess.Popen(
            command("run", recipe, "--out", out), stderr=subprocess.PIPE, text=True, env=environment()
        ) as process,
    ):
        wait(lambda: paused_as(out / "control.yaml") in events())
        journal = len(read_jsonl(out / "chat" / "raw_responses.jsonl"))
        spec = f'{{"{embedded_server.url}": false, "{twin}": {{"api_key_env": "{KEY}", "concurrency": 2}}}}'
        (out / "control.yaml").write_text(f'{{"pause": true, "budgets": {{"chat": 60}}, "engines": {spec}}}')
        wait(lambda: '"joins"' in events() and '"leaves"' in events())
        (out / "control.yaml").write_text("pause: [")
        wait(lambda: "not valid YAML" in events())
        assert process.poll() is None and len(read_jsonl(out / "chat" / "raw_responses.jsonl")) == journal == 1
        (out / "control.yaml").write_text(f'{{"pause": true, "budgets": {{"chat": 60}}, "engines": {spec}}}')
        raised = in_process("control", out, "--resume", "--budget", "120")
        assert raised.returncode == 0 and "is on and follows" in raised.stdout
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    completions = read_jsonl(out / "chat" / "raw_responses.jsonl")
    assert 120 <= sum(c["completion_tokens"] for c in completions) < 180
    assert {c["engine"] for c in completions[1:]} == {twin}
    assert "budget: 100000 → 60" in events() and " → 120" in events()
    assert "Unclosed" not in said
    assert len(read_jsonl(out / "chat" / "tokenized_data.jsonl")) == len(completions)


def test_what_it_cannot_follow_is_refused_and_changes_nothing(recipe: Path) -> None:
    out = recipe.parent / "run"
    nothing = in_process("control", out, "--pause")
    assert nothing.returncode == 2 and "holds no run" in nothing.stderr
    for wrong in (recipe, recipe.parent, recipe.parent / "nowhere"):
        refused = in_process("control", wrong)
        assert refused.returncode == 2 and f"{wrong}: holds no run" in refused.stderr
        exported = in_process("export", wrong)
        assert exported.returncode == 2 and f"{wrong}: holds no run" in exported.stderr


def test_what_holds_is_told_in_words_and_as_json(tmp_path: Path) -> None:
    """Whether it is paused too, which an empty control file does not show."""
    run = begin(tmp_path / "run", {"name": "chat"})
    paused = in_process("control", run.path, "--pause", "--concurrency", "short=8")
    assert "state      paused: nothing new is sent, until --resume" in paused.stdout
    more = in_process("control", run.path, "--budget", "chat=12M", "--engine", "http://h:1=4", "--engine", "http://g:1")
    assert [line.split(None, 1) for line in more.stdout.splitlines()[:4]] == [
        ["lane", "short: 8 at once"],
        ["budget", "chat: 12.00M tokens"],
        ["engine", "http://h:1: put in, 4 at once"],
        ["engine", "http://g:1: put in"],
    ]
    in_process("control", run.path, "--clear", "--concurrency", "short=8")
    resumed = in_process("control", run.path, "--resume", "--json")
    assert json.loads(resumed.stdout) == {
        "run": str(run.path),
        "on": False,
        "pause": False,
        "concurrency": {"short": 8},
        "budgets": {},
        "engines": {},
    }
    assert "state      not paused: prompts are sent" in resumed.stderr
    with locked(run.lock):
        shown = in_process("control", run.path, "--json")
        assert json.loads(shown.stdout)["on"] and "is on and follows" in shown.stderr


@pytest.mark.parametrize(
    "options", [("--pause", "--resume"), ("--engine", "http://h:1=4", "--no-engine", "http://h:1")], ids=" ".join
)
def test_wishes_that_contradict_each_other_are_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    run = begin(tmp_path / "run", {"name": "chat"})
    done = in_process("control", run.path, *options)
    assert done.returncode == 2 and "contradicts" in done.stderr and not run.control.exists()


@pytest.mark.embedded
@pytest.mark.usefixtures("few_heard")
def test_wrong_options_name_what_is_wrong(recipe: Path) -> None:
    out = recipe.parent / "run"
    assert in_process("run", recipe, "--out", out, "--limit", "1").returncode == 0
    for options, told in (
        (["--budget", "chatt=5"], "no dataset 'chatt'; did you mean chat?"),
        (["--budget", "chat=5Q"], "'5Q' is not a count"),
        (["--concurrency", "short=0"], "must be auto or a whole number"),
        (["--engine", "127.0.0.1:3"], "is not a server's URL"),
        (["--concurrency", ""], "must be auto or a whole number"),
        (["--no-engine", "http://gpu-9:1"], "the run has no such engine; it has http://127.0.0.1:"),
    ):
        wrong = in_process("control", out, *options)
        assert wrong.returncode == 2 and told in wrong.stderr, wrong.stderr
    assert not (out / "control.yaml").exists()
    assert "nothing but what the recipe says" in in_process("control", out).stdout
    (url,) = [spec["url"] for spec in yaml.safe_load(recipe.read_text())["engines"]]
    last = in_process("control", out, "--no-engine", url.replace("127.0.0.1", "localhost"))
    assert last.returncode == 0 and "no engine is left" in last.stderr
