"""``draftmill compare`` as a user runs it."""

import json
from pathlib import Path

import pytest

from draftmill.serve.replica import free_port
from tests.cli.command import in_process, questions, write_jsonl, write_recipe
from tests.serve.processes import with_words
from tests.watch.folders import begin

SIDE = "embedded:slots=4,context=256"


@pytest.mark.embedded
def test_a_coarser_cache_is_told_from_itself(tmp_path: Path) -> None:
    prompts = write_jsonl(tmp_path / "prompts.jsonl", questions(4))
    asked = ("--prompts", prompts, "--samples", "4", "--max-new-tokens", "4", "--out", tmp_path / "c.json")
    done = in_process("compare", SIDE, f"{SIDE},kv=q4_0", "--tolerance", "0", *asked, "--json")
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "c.json").read_text())
    assert done.returncode == 1 and not found["passed"], done.stderr
    assert found["b"]["identity"]["kv_dtype"] == "q4_0" and found["prompts"] == 4
    refused = next(effect for effect in found["effects"] if effect["name"] == "refused")
    assert refused["value"] > refused["base"]
    told = " ".join(done.stderr.split())
    assert found["says"] in told and found["advice"] in told and "A again: scores: 4 of 4" in told


@pytest.mark.embedded
def test_two_launches_of_one_plan_stand_one_after_the_other(tmp_path: Path, small_model: Path) -> None:
    port = free_port()
    recipe = write_recipe(
        tmp_path / "r.yaml",
        model=str(small_model),
        engines=[{"url": f"http://127.0.0.1:{port}"}],
        datasets=[{"name": "chat", "source": str(write_jsonl(tmp_path / "chat.jsonl", questions(3)))}],
        plan={"engine": "llamacpp", "slots": 2, "context": 1024, "options": "-t 1"},
    )
    asked = ("--prompts", tmp_path / "chat.jsonl", "--samples", "3", "--max-new-tokens", "2", "--tolerance", "1")
    done = in_process("compare", recipe, f"{recipe}:kv=q4_0", *asked, "--out", tmp_path / "c.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "c.json").read_text())
    refused = found["effects"][0]
    assert refused["value"] > refused["base"] + 0.01, found["effects"]
    logs = {side: list((tmp_path / "c.servers" / side).rglob("*.log")) for side in ("A", "B")}
    assert all(logs.values()) and not with_words("--port", str(port)), logs


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["embeded", "embedded"], 2, "Invalid value for A: url: is not a server's URL"),
        (["embedded", "embedded:kv=q9_0"], 2, "Invalid value for B: kv: 'q9_0' should be 'f32'"),
        (["{url: [", "embedded"], 2, "is not valid YAML"),
        (["http://127.0.0.1:9", "http://127.0.0.1:10"], 2, "Invalid value for --model: is needed"),
        (["none.yaml", "embedded"], 2, "none.yaml"),
        (["embedded", "embedded", "--only", "chat"], 2, "it names a dataset of a run"),
        (["embedded", "embedded", "--prompts", "run", "--model", "m"], 2, "a run has its own"),
        (["http://127.0.0.1:9", "embedded", "--model", "MODEL"], 1, "http://127.0.0.1:9"),
        (["embedded:context=64", "embedded", "--model", "MODEL"], 1, "leaves a prompt nothing of a context of 64"),
        (
            ["embedded", "embedded", "--model", "MODEL", "--prompts", "none.jsonl"],
            2,
            "none.jsonl: no such file or folder",
        ),
        (["embedded", "embedded", "--out", "."], 2, "--out .: cannot be written"),
    ],
)
def test_what_cannot_be_compared(
    tmp_path: Path, tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    begin(tmp_path / "run", {"name": "d"})
    done = in_process("compare", *(str(tokenizer_folder) if a == "MODEL" else a for a in args))
    assert (done.returncode, said in " ".join(done.stderr.split())) == (code, True), done.stderr
    assert not (tmp_path / "compare.json").exists()
