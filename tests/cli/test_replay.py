"""``draftmill verify --replay`` on the embedded engine."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftmill.engines.llamacpp import LlamaCpp
from draftmill.engines.protocol import Request
from draftmill.recipe import Sampling
from draftmill.render import tokenizer as tokenizers
from draftmill.verify import judge
from tests.cli.command import KEY, in_process, write_jsonl
from tests.conftest import EmbeddedServer
from tests.verify.test_corruptions import Clean, clean  # noqa: F401  a fixture of the session

CHATS = ("Tell me about {}.", "Write a poem about {}.")
THINGS = ("tea", "rust", "fog", "chess")


@pytest.mark.embedded
def test_a_runs_own_engine_finds_its_rows_its_own(
    clean: Clean,  # noqa: F811
    embedded_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY, embedded_server.key)
    there = ("--replay", embedded_server.url, "--api-key-env", KEY)
    done = in_process("verify", clean.run, "--only", "facts", *there, "--replay-rows", "10")
    assert "verdict    same model" in done.stdout, done.stderr
    assert "none of the likeliest, should be" in done.stdout and "replay-" not in done.stdout.split("fails")[-1]


@pytest.mark.embedded
def test_rows_of_another_temperature_and_greedy_ones(
    tmp_path: Path, tokenizer_folder: Path, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = tokenizers.load(str(tokenizer_folder))
    asks = [f"<|im_start|>user\n{c.format(t)}<|im_end|>\n<|im_start|>assistant\n" for c in CHATS for t in THINGS]
    prompts = tokenizer.encode(asks)

    async def rows(temperature: float, limit: int) -> list[dict[str, Any]]:
        engine: LlamaCpp = embedded_server.client()
        sampling = Sampling(temperature=temperature)
        asked = [Request(p, limit, sampling, (2, 0), f"r{n}", seed=n) for n, p in enumerate(prompts)]
        replies = await asyncio.gather(*map(engine.generate, asked))
        await engine.close()
        return [
            {"input_ids": p + list(r.output_ids), "loss_mask": [0] * len(p) + [1] * len(r.output_ids)}
            for p, r in zip(prompts, replies, strict=True)
        ]

    monkeypatch.setenv(KEY, embedded_server.key)
    there = ("--replay", embedded_server.url, "--api-key-env", KEY, "--json")
    hot = write_jsonl(tmp_path / "hot.jsonl", asyncio.run(rows(2.0, 26)))
    found = json.loads(in_process("verify", hot, *there).stdout)
    assert found["replay"]["verdict"] == "another model, template or sampler"
    assert {c["name"] for c in found["checks"] if c["above"]} >= {"replay-likelihood", "replay-unlisted"}
    assert found["not_made"]["replay-greedy"] == "no row was sampled at temperature 0"
    greedy = write_jsonl(tmp_path / "greedy.jsonl", asyncio.run(rows(0.0, 26)))
    found = json.loads(in_process("verify", greedy, *there, "--sampling", "temperature=0").stdout)
    assert found["replay"]["verdict"] in ("same model", "same model, lower precision"), found["replay"]  # slots differ


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--replay", "nonsense"], "is neither a server's URL nor `embedded` nor a .gguf file"),
        (["--replay", "embedded"], "nobody says which model the embedded engine has"),
        (["--replay", "http://h:1", "--sampling", "heat=1"], "is not like temperature=0.7,top_p=0.95"),
        (["--replay-rows", "3"], "says something of --replay, which is not given"),
    ],
)
def test_what_cannot_be_replayed(tmp_path: Path, args: list[str], said: str) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"input_ids": [1, 2, 3], "loss_mask": [0, 1, 1]}])
    done = in_process("verify", rows, *args)
    told = " ".join(done.stderr.replace("│", " ").split())
    assert (done.returncode, said in told) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("http://127.0.0.1:9", "error: no server answers at http://127.0.0.1:9"),
        ("nothing.gguf", "error: nothing.gguf: no such GGUF file"),
    ],
)
def test_an_engine_that_is_not_there_is_told_before_any_row_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, said: str
) -> None:
    monkeypatch.setattr(judge, "some_rows", lambda file: pytest.fail(f"{file} was read"))
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"input_ids": [1, 2, 3], "loss_mask": [0, 1, 1]}])
    done = in_process("verify", rows, "--replay", engine)
    assert done.returncode == 1 and done.stderr.startswith(said) and not done.stdout, done.stderr


@pytest.fixture
def server() -> Iterator[str]:
    """A simulated SGLang server, which tells no likeliest ids."""
    options = ["-m", "draftmill.engines.simulated", "--port", "0"]
    with subprocess.Popen([sys.executable, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield f"http://{process.stdout.readline().split()[-1].removeprefix('http://')}"
        process.terminate()


def test_an_engine_that_fails_while_it_is_asked_takes_no_check_of_the_rows_away(tmp_path: Path, server: str) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"input_ids": [1, 2, 3], "loss_mask": [0, 1, 1]}])
    done = in_process("verify", rows, "--replay", server)
    assert done.returncode == 1
    said = f"{server}: it does not say which ids are the likeliest"
    assert done.stderr.startswith(f"error: {said}"), done.stderr
    assert "checks " in done.stdout and f"replay     failed: {said}" in done.stdout
    assert f"the engine failed: {said}" in done.stdout
    found = json.loads(in_process("verify", rows, "--replay", server, "--json").stdout)
    assert not found["passed"] and found["replay"] is None
    assert found["replay_fault"]["message"].startswith(said)
    assert {check["name"] for check in found["checks"]} >= {"mask-gap", "duplicate"}


@pytest.mark.embedded
def test_the_small_model_by_its_name_and_the_file_of_model_for_the_embedded_engine(
    tmp_path: Path, small_model: Path
) -> None:
    """For the tokenizer and for the engine; another file than it could be is refused by name."""
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"input_ids": [1, 4093, 198, 57], "loss_mask": [0, 0, 1, 1]}])
    for model in ("smollm2", small_model):
        done = in_process("verify", rows, "--model", model, "--replay", "embedded", "--json")
        found = json.loads(done.stdout)
        assert found["replay"]["ids"] == 2 and found["replay_fault"] is None, done.stderr
        assert "vocabulary" not in found["not_made"]


def test_rows_under_a_penalty_are_not_judged(tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"input_ids": [1, 2, 3], "loss_mask": [0, 1, 1]}])
    done = in_process(
        "verify", rows, "--replay", "http://127.0.0.1:9", "--sampling", "repetition_penalty=1.1", "--json"
    )
    assert json.loads(done.stdout)["not_made"]["replay-row"].startswith("penalties look at the ids before")
