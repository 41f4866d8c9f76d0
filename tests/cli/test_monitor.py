"""``draftmill monitor`` as a user runs it, and its keys on a real run."""

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftmill.journal.folder import RunFolder
from draftmill.journal.lock import locked
from draftmill.ledger.told import GOES_ON, PAUSED
from draftmill.watch.monitor import Monitor
from draftmill.watch.stats import RunWatch
from tests.cli.command import command, draftmill, environment, in_process, questions, write_jsonl, write_recipe
from tests.watch.folders import append, begin, completion, event, failure


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = begin(tmp_path, {"name": "chat", "budget": 30}, {"name": "code"})
    now = time.time()
    append(made.events, event(now - 60, "milling"), event(now - 5, "ended", "run", "interrupted"))
    append(made.dataset("chat").journal, *(completion(n, 10, "chat") for n in range(5)), b'{"half": ')
    append(made.dataset("code").errors, failure(1, "no", "code"))
    return made


def test_once_in_a_pipe(folder: RunFolder) -> None:
    done = draftmill("monitor", folder.path, "--once")
    assert done.returncode == 0 and done.stderr == ""
    assert "\x1b" not in done.stdout
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("chat"))
    assert row[0] == "chat" and "100%" in row and "30/30" in row
    assert "ended (interrupted): 9 prompts still owed" in done.stdout
    assert "run the same `draftmill run` command again" in done.stdout


def test_a_pipe_is_as_wide_as_it_is_asked_to_be(folder: RunFolder) -> None:
    wide, narrow = (draftmill("monitor", folder.path, "--once", COLUMNS=columns).stdout for columns in ("", "60"))
    (whole,), (row,) = ([line for line in text.splitlines() if line.startswith("chat")] for text in (wide, narrow))
    assert len(whole.rstrip()) > 60 >= len(row.rstrip()) and "30/30" in row


def test_plain_is_what_a_pipe_gets_and_it_ends_with_the_run(folder: RunFolder) -> None:
    done = draftmill("monitor", folder.path)
    assert done.returncode == 0 and "chat" in done.stdout


def test_json(folder: RunFolder) -> None:
    done = draftmill("monitor", folder.path, "--json")
    said = json.loads(done.stdout)
    chat, code = said["figures"]["datasets"]
    assert (chat["counting"], chat["surplus"], chat["counted"], chat["torn"]) == (3, 2, 30, True)
    assert (code["errors"], code["owed"]) == (1, 9)
    assert said["figures"]["phase"] == "ended" and said["findings"][0]["verdict"] == "ended"


def test_what_a_start_died_of_is_told(tmp_path: Path, tokenizer_folder: Path) -> None:
    """Of one that could not prepare, of one that no engine answered, and of one that is refused since."""
    out, source = tmp_path / "run", tmp_path / "s.jsonl"

    def start(**more: Any) -> str:
        """The first finding once a start has come to nothing."""
        known = {"model": str(tokenizer_folder), "engines": ["http://127.0.0.1:9"]}
        known["datasets"] = [{"name": "d", "source": str(source)}]
        recipe = write_recipe(tmp_path / "recipe.yaml", **known | more)
        done = draftmill("run", recipe, "--out", out)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        return str(json.loads(in_process("monitor", out, "--json").stdout)["findings"][0]["message"])

    begun = "not started: the last start ended before it generated anything: "
    missing = start()
    assert missing.startswith(begun) and str(source) in missing
    write_jsonl(source, questions(2))
    assert start().startswith(f"{begun}no server answers at http://127.0.0.1:9: ")
    assert start(seed=7).startswith(f"{begun}{out}: ")
    events = (out / "events.jsonl").read_bytes()
    with locked(out / "lock"):
        start()
    assert (out / "events.jsonl").read_bytes() == events, "one that is locked out has no run to tell of"


def test_bad_input(tmp_path: Path) -> None:
    gone = draftmill("monitor", tmp_path / "no")
    assert gone.returncode == 2 and "holds no run" in gone.stderr
    log = draftmill("monitor", tmp_path, "--log", "http://e:1=nothing.log", "--once")
    assert log.returncode == 2 and "nothing.log: no log lies there" in log.stderr


def test_a_servers_log(folder: RunFolder) -> None:
    log = Path(__file__).parent.parent / "watch" / "golden" / "sglang-0.4.6.log"
    done = draftmill("monitor", folder.path, "--once", "--log", log)
    assert "sglang-0.4.6.log" in done.stdout and "865" in done.stdout


@pytest.fixture
def server() -> Iterator[str]:
    """A simulated SGLang server whose answers take a while."""
    options = ["--port", "0", "--mean", "60", "--sigma", "0.1", "--base", "0.02", "--vocab-size", "40000"]
    with subprocess.Popen(
        [sys.executable, "-m", "draftmill.engines.simulated", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        yield process.stdout.readline().split()[-1]
        process.terminate()


def wait(condition: Callable[[], object], seconds: float) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, "it never came"
        time.sleep(0.02)
    return time.monotonic() - began


def test_keys_act_on_a_real_run_within_two_seconds(server: str, tmp_path: Path, tokenizer_folder: Path) -> None:
    """And what they did stands among its events; its metrics are there meanwhile."""
    url = server if "://" in server else f"http://{server}"
    write_jsonl(tmp_path / "chat.jsonl", questions(400))
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=[{"url": url, "concurrency": 4}],
        lanes={"short": {"max_new_tokens": 100}},
        datasets=[{"name": "chat", "source": "chat.jsonl", "budget": "100k"}],
    )
    out = tmp_path / "run"
    told = (tmp_path / "told").open("w+")
    with subprocess.Popen(
        command("run", recipe, "--out", out, "--metrics-port", "0"), stderr=told, env=environment()
    ) as process:
        journal = out / "chat" / "raw_responses.jsonl"
        wait(lambda: journal.exists() and journal.stat().st_size, 60)
        port = re.search(r"127\.0\.0\.1:(\d+)/metrics", (tmp_path / "told").read_text())
        assert port
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=10) as reply:
            assert b'draftmill_run_phase{phase="running"} 1.0' in reply.read()

        def events() -> str:
            return (out / "events.jsonl").read_text()

        async def steer() -> list[float]:
            app = Monitor(RunWatch(out), every=0.5)
            async with app.run_test(size=(120, 40)) as pilot:
                await app.workers.wait_for_complete()
                took = []
                for keys, sign in (
                    (["p"], PAUSED),
                    (["b", *"chat=50k", "enter"], "budget: 100000 → 50000"),
                    (["c", *"short=2", "enter"], "lanes.short.concurrency"),
                    (["p"], GOES_ON),
                ):
                    await pilot.press(*keys)
                    took.append(await asyncio.to_thread(wait, lambda sign=sign: sign in events(), 30))
                    app.action_look()
                    await app.workers.wait_for_complete()
                return took

        took = asyncio.run(steer())
        process.terminate()
        process.wait(30)
    told.close()
    assert max(took) < 2.0, took
