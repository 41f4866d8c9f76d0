"""What is wrong is said once, with its place, and nothing else is lost."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import KEY, in_process, questions, read_jsonl, write_jsonl, write_recipe
from tests.conftest import CONTEXT, EmbeddedServer

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("few_heard")]


@pytest.fixture
def run(
    tmp_path: Path, embedded_server: EmbeddedServer, tokenizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """``run(source, **recipe)`` writes a recipe for a source and runs it."""
    monkeypatch.setenv(KEY, embedded_server.key)

    def call(
        source: Path, *options: str, verb: str = "run", dataset: dict[str, Any] | None = None, **recipe: Any
    ) -> Any:
        values = {
            "model": str(tokenizer_folder),
            "engines": [{"url": embedded_server.url, "api_key_env": KEY}],
            "lanes": {"short": {"max_new_tokens": 4}},
            "datasets": [{"name": "d", "source": str(source)} | (dataset or {})],
        }
        path = write_recipe(tmp_path / "recipe.yaml", **(values | recipe))
        return in_process("run", path, "--out", tmp_path / "run", *options)

    return call


def said(done: Any) -> str:
    assert "Traceback" not in done.stderr
    return str(done.stdout + done.stderr)


def test_a_missing_file(run: Any, tmp_path: Path) -> None:
    done = run(tmp_path / "none.jsonl")
    assert done.returncode == 1 and "none.jsonl" in said(done)


def test_an_unknown_format(run: Any, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(2))
    done = run(source, dataset={"format": "sharegp"})
    assert done.returncode == 2 and "recipe.yaml:1: datasets[0].format" in said(done) and "mean sharegpt" in said(done)


def test_rows_that_cannot_be_read_are_told_with_their_line_and_the_others_run(run: Any, tmp_path: Path) -> None:
    source = tmp_path / "s.jsonl"
    good = [json.dumps(row).encode() for row in questions(4)]
    bad = [
        b'{"messages": [{"role": "user", "con',  # torn in the middle of the file
        b'{"messages": [{"role": "assistant", "content": "no question"}]}',
        b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
        b'{"messages": [{"role": "user", "content": "lone \\ud800 surrogate"}]}',
    ]
    source.write_bytes(b"\n".join(line for pair in zip(good, bad, strict=True) for line in pair) + b"\n")
    done = run(source)
    assert done.returncode == 0, done.stderr
    told = said(done)
    unread = read_jsonl(tmp_path / "run" / "d" / "unread.jsonl")
    assert [row["where"]["line"] for row in unread] == [2, 4, 6, 8]
    for row in unread:
        assert row["reason"] in told and f"s.jsonl:{row['where']['line']}" in told
    assert len(read_jsonl(tmp_path / "run" / "d" / "tokenized_data.jsonl")) == 4


def test_a_source_without_one_readable_row(run: Any, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", [{"messages": [{"role": "assistant", "content": "x"}]}] * 3)
    done = run(source, dataset={"format": "messages"})
    assert done.returncode == 1 and "s.jsonl" in said(done)


def test_a_prompt_longer_than_the_context_is_an_error_row(run: Any, tmp_path: Path) -> None:
    rows = questions(30)
    rows[7]["messages"][0]["content"] = "word " * CONTEXT
    done = run(write_jsonl(tmp_path / "s.jsonl", rows))
    assert done.returncode == 0, done.stderr
    (failure,) = read_jsonl(tmp_path / "run" / "d" / "errors.jsonl")
    assert failure["kind"] == "too_long" and failure["where"].endswith("s.jsonl:8")
    assert len(read_jsonl(tmp_path / "run" / "d" / "tokenized_data.jsonl")) == 29
    assert "--retry-errors" in said(done)


def test_too_large_a_share_of_errors_is_not_called_complete(run: Any, tmp_path: Path) -> None:
    rows = questions(4)
    rows[2]["messages"][0]["content"] = "word " * CONTEXT
    done = run(write_jsonl(tmp_path / "s.jsonl", rows))
    assert done.returncode == 1 and "25.0% of its prompts became errors (1); allowed are 5.0%" in said(done)


def test_a_model_without_a_chat_template(run: Any, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    folder = tmp_path / "model"
    folder.mkdir()
    Tokenizer(models.BPE(vocab={"a": 0}, merges=[])).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    done = run(write_jsonl(tmp_path / "s.jsonl", questions(1)), model=str(folder))
    assert done.returncode == 1 and "has no chat template" in said(done)


def test_another_model_s_tokenizer_is_shown_with_the_text(run: Any, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    other = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    other.chat_template = "{% for m in messages %}{{ m['content'] }}<end>{% endfor %}"
    other.save_pretrained(tmp_path / "model")
    done = run(write_jsonl(tmp_path / "s.jsonl", questions(1)), model=str(tmp_path / "model"))
    assert done.returncode == 1
    assert "tokenizes a text otherwise than the recipe's model: after '' (token 0) ours are" in said(done)


def test_a_wrong_url(run: Any, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(1))
    done = run(source, engines=["http://127.0.0.1:9"])
    assert done.returncode == 1 and "no server answers at http://127.0.0.1:9" in said(done)
    started = f"or let draftmill start the planned one: draftmill serve {tmp_path}/recipe.yaml, or draftmill run"
    assert started in said(done)


@pytest.fixture
def stranger() -> Iterator[str]:
    """An HTTP server that is no inference server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_server_of_another_kind(run: Any, tmp_path: Path, stranger: str) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(1))
    done = run(source, engines=[stranger])
    assert done.returncode == 1 and "neither SGLang, vLLM nor llama.cpp" in said(done)


@pytest.mark.parametrize("key", [None, "wrong"])
def test_a_key_that_is_refused(
    run: Any, tmp_path: Path, embedded_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    engine = {"url": embedded_server.url} | ({"api_key_env": "OTHER_KEY"} if key else {})
    monkeypatch.setenv("OTHER_KEY", key or "")
    source = write_jsonl(tmp_path / "s.jsonl", questions(2))
    done = run(source, engines=[engine])
    assert done.returncode == 1, done.stderr
    told = said(done)
    assert "401" in told or "key" in told
    assert not key or key not in told.replace("wrong URL", "")
    assert not (tmp_path / "run" / "d" / "errors.jsonl").exists()


def test_a_dead_engine_beside_a_living_one(run: Any, tmp_path: Path, embedded_server: EmbeddedServer) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(3))
    engines = ["http://127.0.0.1:9", {"url": embedded_server.url, "api_key_env": KEY}]
    done = run(source, engines=engines)
    assert done.returncode == 0 and "http://127.0.0.1:9: the run goes on without it until it answers: " in said(done)


def test_an_unset_key_variable(run: Any, tmp_path: Path, embedded_server: EmbeddedServer) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(1))
    done = run(source, engines=[{"url": embedded_server.url, "api_key_env": "NOT_SET_ANYWHERE"}])
    assert done.returncode == 1 and "NOT_SET_ANYWHERE" in said(done)


def test_every_fault_of_a_recipe_at_once(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("model: x\nengines: [embeded]\ndatasets:\n  - name: a\n    source: x\n    buget: 1M\n")
    done = in_process("run", path)
    assert done.returncode == 2
    assert "recipe.yaml:2: engines[0].url: is not a server's URL" in said(done)
    assert "recipe.yaml:6: datasets[0].buget: unknown key; did you mean budget?" in said(done)


def test_a_damaged_journal_line_is_told_and_its_position_done_again(run: Any, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(3))
    assert run(source).returncode == 0
    journal = tmp_path / "run" / "d" / "raw_responses.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1][:20] + b"\n" + lines[2])
    for _ in range(2):  # where its answer stands in another line, it keeps nothing from being complete
        done = run(source)
        assert done.returncode == 0, done.stderr
        assert "raw_responses.jsonl:2: cannot be read: " in said(done) and "settled without it" in said(done)
    assert len(read_jsonl(tmp_path / "run" / "d" / "tokenized_data.jsonl")) == 3
    assert journal.read_bytes().splitlines(keepends=True)[:3] == [lines[0], lines[1][:20] + b"\n", lines[2]]


def test_a_damaged_run_yaml(run: Any, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(1))
    assert run(source).returncode == 0
    (tmp_path / "run" / "run.yaml").write_text("recipe: [")
    done = run(source)
    assert done.returncode == 1 and "run.yaml: cannot be read" in said(done)


def test_a_run_without_its_settings_is_not_begun_anew(run: Any, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(1))
    assert run(source).returncode == 0
    (tmp_path / "run" / "run.yaml").unlink()
    done = run(source, sampling={"temperature": 0.1})
    assert done.returncode == 1 and "run.yaml: is gone, but the run has prompts of d" in said(done)


def test_a_number_of_thousands_of_digits_is_one_unread_row(run: Any, tmp_path: Path) -> None:
    source = tmp_path / "s.jsonl"
    source.write_text('{"prompt": "a", "x": ' + "9" * 5000 + '}\n{"prompt": "b"}\n')
    done = run(source)
    assert done.returncode == 0 and "s.jsonl:1" in said(done) and "thousands of digits" in said(done)


@pytest.mark.parametrize("name", ["prompts.jsonl", "prepared.json", "raw_responses.jsonl", "errors.jsonl", "rows.json"])
def test_a_folder_where_a_file_belongs(run: Any, tmp_path: Path, name: str) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(1))
    assert run(source).returncode == 0
    path = tmp_path / "run" / "d" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    done = run(source)
    assert done.returncode == 1 and name in said(done)


def test_a_recipe_nested_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("model: " + "[" * 5000)
    done = in_process("run", path)
    assert done.returncode == 2 and "recipe.yaml" in said(done)


def test_all_sources_that_cannot_be_read_are_told_before_one_is_prepared(
    tmp_path: Path, tokenizer_folder: Path
) -> None:
    good = write_jsonl(tmp_path / "good.jsonl", questions(2))
    odd = write_jsonl(tmp_path / "odd.jsonl", [{"a": 1}])
    sources = [("good", good), ("gone", tmp_path / "gone.jsonl"), ("odd", odd)]
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=["embedded"],
        datasets=[{"name": name, "source": str(source)} for name, source in sources],
    )
    done = in_process("prepare", recipe, "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "2 of 3 datasets cannot be read" in said(done)
    assert "gone.jsonl" in said(done) and "odd.jsonl: no known format" in said(done)
    assert not (tmp_path / "run" / "good" / "prompts.jsonl").exists()


def test_commands_to_go_on_with_can_be_pasted(tmp_path: Path, tokenizer_folder: Path) -> None:
    source = write_jsonl(tmp_path / "s.jsonl", questions(2))
    datasets = [{"name": "d", "source": str(source)}]
    recipe = write_recipe(
        tmp_path / "my recipe.yaml", model=str(tokenizer_folder), engines=["embedded"], datasets=datasets
    )
    done = in_process("prepare", recipe, "--out", tmp_path / "my run")
    assert f"draftmill run '{recipe}' --out '{tmp_path / 'my run'}'" in said(done)
