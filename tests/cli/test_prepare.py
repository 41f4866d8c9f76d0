"""``draftmill prepare`` on a mix of formats: what it recognised and why, and what it could not read."""

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet as pq

from tests.cli.command import draftmill, questions, read_jsonl, write_jsonl, write_recipe
from tests.render.tiny import END, directory

GLAIVE = {
    "system": "SYSTEM: You are a helpful assistant with access to the following functions. Use them if required -\n"
    '{"name": "f"}',
    "chat": 'USER: hi\n\n\nASSISTANT: <functioncall> {"name": "f", "arguments": \'{}\'} <|endoftext|>\n\n\n'
    "FUNCTION RESPONSE: {}\n\n\nASSISTANT: hi <|endoftext|>",
}
MIX: dict[str, tuple[str, list[Any], str]] = {  # dataset: format, rows, why the last of them is none
    "B1": ("glaive", [GLAIVE] * 4 + [{"chat": "hi"}], "column 'chat' does not begin with USER: or ASSISTANT:"),
    "B2": ("alpaca", [{"instruction": "hi", "output": ""}] * 4 + [{"instruction": "", "output": ""}], "is empty"),
    "A1": ("tokenized", [{"input_ids": [5, END]}] * 4 + [{"input_ids": [5, 70_000]}], "the model's vocabulary ends at"),
}


@pytest.fixture
def prepare(tmp_path: Path) -> Any:
    directory(tmp_path / "model")

    def run(sources: dict[str, str], out: str = "run") -> Any:
        datasets = [{"name": name, "source": source} for name, source in sources.items()]
        recipe = {"model": str(tmp_path / "model"), "engines": ["http://127.0.0.1:9"], "datasets": datasets}
        done = draftmill("prepare", write_recipe(tmp_path / "recipe.yaml", **recipe), "--out", tmp_path / out, "--json")
        assert "Traceback" not in done.stderr
        return done

    return run


def test_a_mix_is_recognised_and_what_is_unread_is_told(prepare: Any, tmp_path: Path) -> None:
    for name, (_, rows, _) in MIX.items():
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    done = prepare({name: f"{name}.jsonl" for name in MIX})
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    for name, (format, rows, reason) in MIX.items():
        report = reports[name]
        assert (report["format"], report["read"], report["unread"]) == (format, len(rows), 1)
        assert f"{name}: {format}: {report['why']}" in done.stderr
        assert f"{len(rows)} rows as {format}, 1 unread" in done.stderr
        (unread,) = read_jsonl(tmp_path / "run" / name / "unread.jsonl")
        assert reason in unread["reason"] and unread["where"]["line"] == len(rows)
        told = f"{name}: 1 row: {unread['reason']} (first: {unread['where']['file']}:{len(rows)})"
        assert told in " ".join(done.stderr.split())
    prompts = read_jsonl(tmp_path / "run" / "B1" / "prompts.jsonl")
    assert prompts[0]["tools"][0]["function"]["name"] == "f" and prompts[0]["messages"][-1]["role"] == "tool"


def test_files_that_cannot_be_read_say_so(prepare: Any, tmp_path: Path) -> None:
    pq.write_table(pyarrow.table({"messages": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1" + bytes(50))
    (tmp_path / "c.jsonl").mkdir()
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b'{"prompt": "hi"}\n' * 9)[:-12])
    os.mkfifo(tmp_path / "f.jsonl")
    (tmp_path / "e.json").write_text('{"prompt": "hi"')
    for source, said in {
        "a.parquet": "no known format in the first 2 rows",
        "b.parquet": "not a whole Parquet file",
        "c.jsonl": "is a folder",
        "d.jsonl.gz": "the gzip stream ends early",
        "e.json": "the JSON is torn",
        "f.jsonl": "is no file but a pipe or device",
    }.items():
        done = prepare({"d": source}, source + "-run")
        assert f"{tmp_path}/{source}" in done.stderr and said in done.stderr, done.stderr
        assert done.returncode == 1


def test_a_first_start_that_fails_on_its_source_decides_nothing(tmp_path: Path, tokenizer_folder: Path) -> None:
    write_jsonl(tmp_path / "chat.jsonl", questions(3))

    def prepared(source: str) -> "subprocess.CompletedProcess[str]":
        recipe = write_recipe(
            tmp_path / "recipe.yaml",
            model=str(tokenizer_folder),
            engines=["http://127.0.0.1:9"],
            datasets=[{"name": "chat", "source": source}],
        )
        return draftmill("prepare", recipe, "--out", tmp_path / "run")

    assert prepared("chta.jsonl").returncode == 1
    assert prepared("chat.jsonl").returncode == 0
    assert prepared("chta.jsonl").returncode == 1
