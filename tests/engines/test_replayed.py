"""``draftmill verify --replay`` on a real SGLang or vLLM server in float32; ``scripts/engines/test_engines.sh`` starts
it.

The server's own rows pass; those of perturbed weights, of another template, of another temperature and re-tokenised
ones do not; those of the same model with quantised kernels are told apart from both.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from draftmill.render import tokenizer as tokenizers
from tests.cli.command import draftmill, in_process, read_jsonl, write_jsonl, write_recipe

pytestmark = pytest.mark.engine

URLS = ("DRAFTMILL_VLLM_URL", "DRAFTMILL_SGLANG_URL")
SCRIPTS = Path(__file__).parents[2] / "scripts" / "engines"
THINGS = (
    "tea",
    "a glacier",
    "rust",
    "a violin",
    "fog",
    "chess",
    "bread",
    "a comet",
    "moss",
    "iron",
    "a parrot",
    "time",
)
THINGS += ("a bridge", "salt", "wind", "a clock")
ASKS = ("Tell me about {}.", "Write a short poem about {}.", "Write a Python class for {}.")
# in a language that it hardly knows the model cuts one word in sixty ids otherwise than the tokenizer: a few are enough
FINNISH = "Kerro suomeksi, mikä on {}."
HOT, GREEDY = {"temperature": 2.0}, {"temperature": 0.0}


class Own(NamedTuple):
    """A run of the server itself, and its URL."""

    run: Path
    url: str


def recipe(folder: Path, model: Path, engine: Any, datasets: list[dict[str, Any]]) -> Path:
    asks = [{"messages": [{"role": "user", "content": ask.format(thing)}]} for thing in THINGS for ask in ASKS]
    write_jsonl(folder / "asks.jsonl", asks)
    finnish = [{"messages": [{"role": "user", "content": FINNISH.format(thing)}]} for thing in THINGS]
    write_jsonl(folder / "finnish.jsonl", finnish)
    return write_recipe(
        folder / "recipe.yaml",
        model=str(model),
        engines=[engine],
        lanes={"short": {"max_new_tokens": 40}},
        datasets=[{"source": "asks.jsonl"} | dataset for dataset in datasets],
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, tokenizer_folder: Path) -> Own:
    folder = tmp_path_factory.mktemp("own")
    url = next(os.environ[name] for name in URLS if name in os.environ)
    datasets = [
        {"name": "plain", "samples": 36},
        {"name": "finnish", "source": "finnish.jsonl", "n": 2},
        {"name": "hot", "sampling": HOT, "samples": 12},
        {"name": "greedy", "sampling": GREEDY, "samples": 12},
    ]
    asked = recipe(folder, tokenizer_folder, {"url": url, "concurrency": 32}, datasets)  # the server's CPU is slow
    done = draftmill("run", asked, "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    return Own(folder / "run", url)


def replayed(data: Path, url: str, *more: str | Path) -> tuple[str, set[str]]:
    """The verdict, and the checks of the replay that are above their thresholds."""
    done = in_process("verify", data, "--replay", url, "--json", "--replay-rows", "200", *more)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    print(json.dumps(found["replay"], indent=1))
    return found["replay"]["verdict"], {c["name"] for c in found["checks"] if c["above"] and "replay-" in c["name"]}


def rows(run: Path, dataset: str) -> list[dict[str, Any]]:
    return read_jsonl(run / dataset / "tokenized_data.jsonl")


def as_file(path: Path, changed: list[dict[str, Any]]) -> Path:
    return write_jsonl(path, [{name: row[name] for name in ("input_ids", "loss_mask")} for row in changed])


def with_ids(row: dict[str, Any], prompt: list[int], answer: list[int]) -> dict[str, Any]:
    return {"input_ids": prompt + answer, "loss_mask": [0] * len(prompt) + [1] * len(answer)}


def test_its_own_rows_pass(own: Own) -> None:
    assert replayed(own.run, own.url) == ("same model", set())


def test_rows_of_another_temperature_fail(own: Own, tmp_path: Path) -> None:
    hot = as_file(tmp_path / "hot.jsonl", rows(own.run, "hot"))
    verdict, fired = replayed(hot, own.url)
    assert verdict == "another model, template or sampler"
    assert "replay-unlisted" in fired


def test_rows_of_another_template_fail(own: Own, tmp_path: Path, tokenizer_folder: Path) -> None:
    tokenizer = tokenizers.load(str(tokenizer_folder))
    changed = []
    for row in rows(own.run, "plain"):
        at = row["prompt_tokens"]
        asked = tokenizer.decode(row["input_ids"][:at]).split("<|im_start|>user\n")[1].split("<|im_end|>")[0]
        (prompt,) = tokenizer.encode([f"<|im_start|>user\n{asked}<|im_end|>\n"])  # nobody is asked for an answer
        changed.append(with_ids(row, prompt, row["input_ids"][at:]))
    verdict, fired = replayed(as_file(tmp_path / "other.jsonl", changed), own.url)
    assert verdict == "another model, template or sampler"
    assert fired == {"replay-start"}


def test_rows_that_were_tokenized_again_fail(own: Own, tmp_path: Path, tokenizer_folder: Path) -> None:
    tokenizer = tokenizers.load(str(tokenizer_folder))
    changed, others = [], 0
    for row in rows(own.run, "finnish"):
        prompt, answer = row["input_ids"][: row["prompt_tokens"]], row["input_ids"][row["prompt_tokens"] :]
        (again,) = tokenizer.encode([tokenizer.decode(answer)])
        others += again != answer
        changed.append(with_ids(row, prompt, again))
    assert others >= 5
    as_it_was = as_file(tmp_path / "finnish.jsonl", rows(own.run, "finnish"))
    assert replayed(as_it_was, own.url, "--model", tokenizer_folder) == ("same model", set())
    verdict, fired = replayed(as_file(tmp_path / "again.jsonl", changed), own.url, "--model", tokenizer_folder)
    assert verdict == "another model, template or sampler"
    assert "replay-re-tokenised" in fired


@pytest.mark.parametrize(
    ("moved", "verdict"), [(None, "same model, lower precision"), ("0.1", "another model, template or sampler")]
)
def test_other_weights(
    own: Own, tmp_path: Path, tokenizer_folder: Path, small_model: Path, moved: str | None, verdict: str
) -> None:
    """Q4_1 computes with coarser numbers than float32 does, of the very same weights."""
    gguf = small_model
    if moved:
        gguf = tmp_path / "moved.gguf"
        subprocess.run([sys.executable, SCRIPTS / "retype_gguf.py", small_model, gguf, "F32", moved], check=True)
    engine = {"kind": "embedded", "gguf": str(gguf), "slots": 4, "context": 512}
    datasets = [{"name": "plain", "samples": 36}, {"name": "greedy", "sampling": GREEDY, "samples": 12}]
    asked = recipe(tmp_path, tokenizer_folder, engine, datasets)
    done = draftmill("run", asked, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    (tmp_path / "run" / "engines.json").unlink()  # what it says of itself: what it says to fixed ids is enough
    for dataset in ("plain", "greedy"):
        found, fired = replayed(tmp_path / "run", own.url, "--only", dataset)
        assert found == verdict
        assert "replay-precision" in fired
