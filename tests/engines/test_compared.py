"""``draftmill compare`` with a real SGLang or vLLM server in float32; ``scripts/engines/test_engines.sh`` starts it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import KEY, in_process, questions, write_jsonl
from tests.conftest import EmbeddedServer

pytestmark = pytest.mark.engine

URLS = ("DRAFTMILL_VLLM_URL", "DRAFTMILL_SGLANG_URL")


@pytest.fixture
def url() -> str:
    return next(os.environ[name] for name in URLS if name in os.environ)


def compared(a: str, b: str, folder: Path, model: Path) -> tuple[int, dict[str, Any]]:
    prompts = write_jsonl(folder / "prompts.jsonl", questions(8))
    asked = ("--prompts", prompts, "--model", model, "--samples", "8", "--max-new-tokens", "12")
    done = in_process("compare", a, b, *asked, "--out", folder / "compare.json", "--json")
    assert done.stdout, done.stderr
    print(done.stderr)
    return done.returncode, json.loads(done.stdout)


def test_a_server_says_what_it_says(url: str, tmp_path: Path, tokenizer_folder: Path) -> None:
    code, found = compared(url, url, tmp_path, tokenizer_folder)
    assert (code, found["verdict"]) == (0, "within the noise"), found["says"]
    assert found["a"]["identity"] == found["b"]["identity"]
    assert found["scored"] == found["a"]["tokens"] + found["b"]["tokens"] > 100


def test_quantised_kernels_of_the_same_weights_are_told(
    url: str, tmp_path: Path, tokenizer_folder: Path, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, embedded_server.key)
    other = f"{{url: {embedded_server.url}, api_key_env: {KEY}}}"
    code, found = compared(url, other, tmp_path, tokenizer_folder)
    by = {effect["name"]: effect for effect in found["effects"]}
    assert code == 1 and not found["passed"], found["says"]
    for name in ("refused", "log-probability", "KL"):
        assert by[name]["excess"]["low"] > 0, by[name]
    assert 0.02 < by["log-probability"]["excess"]["value"] < 0.3
