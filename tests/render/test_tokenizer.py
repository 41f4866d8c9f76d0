"""Tokenizers from directories and hub ids, and the ids that end an answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from draftmill.errors import RenderError
from draftmill.render import tokenizer as tokenizers
from tests.render import tiny
from tests.sources.fake_hub import serving


def test_a_directory(tmp_path: Path) -> None:
    loaded = tokenizers.load(str(tiny.directory(tmp_path)))
    assert loaded.encode(["<|start|>hi hi", "123<|end|>", ""]) == [
        [tiny.START, tiny.VOCABULARY.index("hi"), tiny.VOCABULARY.index("Ġhi")],
        [tiny.VOCABULARY.index("123"), tiny.END],
        [],
    ]
    assert loaded.encode([]) == []
    assert loaded.size == len(tiny.VOCABULARY) + 3
    assert loaded.special == {"<|start|>": tiny.START, "<|end|>": tiny.END, "<|call|>": tiny.CALL}


def test_nothing_is_cleaned_up_or_left_out_when_ids_become_text(tmp_path: Path) -> None:
    loaded = tokenizers.load(str(tiny.directory(tmp_path)))
    text = "<|start|> I 'm , x . <|end|>  \n<|call|>"
    assert loaded.decode(loaded.encode([text])[0]) == text


def test_a_saved_tokenizer_is_the_same_when_it_is_loaded_again(tmp_path: Path) -> None:
    first = tokenizers.load(str(tiny.directory(tmp_path / "a", generation_config={"eos_token_id": [7, tiny.CALL]})))
    first.save(tmp_path / "b")
    second = tokenizers.load(str(tmp_path / "b"))
    second.save(tmp_path / "c")
    third = tokenizers.load(str(tmp_path / "c"))
    for again in (second, third):
        assert (again.digest(), again.stop_ids, again.special) == (first.digest(), first.stop_ids, first.special)
        assert again.inner.chat_template == tiny.TEMPLATE


def test_another_tokenizer_has_another_digest(tmp_path: Path) -> None:
    one = tokenizers.load(str(tiny.directory(tmp_path / "a")))
    path = tmp_path / "a" / "tokenizer.json"
    changed = path.read_text().replace('"add_prefix_space": false', '"add_prefix_space": true', 1)
    assert changed != path.read_text()
    path.write_text(changed)
    assert tokenizers.load(str(tmp_path / "a")).digest() != one.digest()


@pytest.mark.parametrize(
    ("eos", "files", "stop_ids"),
    [
        ("<|end|>", {}, [tiny.END]),
        (None, {}, []),
        ("<|end|>", {"generation_config": {"eos_token_id": tiny.CALL}}, [tiny.CALL, tiny.END]),
        ("<|end|>", {"generation_config": {"eos_token_id": [tiny.CALL, 7]}}, [tiny.CALL, 7, tiny.END]),
        ("<|end|>", {"generation_config": {"eos_token_id": [tiny.END]}}, [tiny.END]),
        ("<|end|>", {"generation_config": {"eos_token_id": None}}, [tiny.END]),
        ("<|end|>", {"generation_config": {"temperature": 0.6}}, [tiny.END]),
        (None, {"config": {"eos_token_id": 7}}, [7]),  # SGLang stops there, whatever a request says
        ("<|end|>", {"generation_config": {"eos_token_id": 5}, "config": {"eos_token_id": [6, 5]}}, [5, 6, tiny.END]),
    ],
)
def test_stop_ids_of_a_models_files(eos, files, stop_ids, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert tokenizers.load(str(tiny.directory(tmp_path, eos=eos, **files))).stop_ids == stop_ids


@pytest.mark.parametrize("content", ["{", '{"eos_token_id": "</s>"}', "[2]", ""])
def test_a_broken_generation_config_is_told_not_passed_over(content: str, tmp_path: Path) -> None:
    tiny.directory(tmp_path)
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(RenderError, match=r"generation_config.json"):
        tokenizers.load(str(tmp_path))


@pytest.mark.parametrize("model", ["/no/such/place", "nothing", "a/b/c", "./a/b"])
def test_a_name_that_is_neither_a_path_nor_a_hub_id(model: str) -> None:
    with pytest.raises(RenderError, match=r"no such tokenizer directory or \.gguf file, and not a hub id") as caught:
        tokenizers.load(model)
    assert "hub id" in caught.value.advice


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    tiny.directory(tmp_path)
    with pytest.raises(RenderError, match=r"no such tokenizer directory or \.gguf file"):
        tokenizers.load(str(tmp_path / "tokenizer.json"))


def test_a_directory_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match="its tokenizer cannot be loaded") as caught:
        tokenizers.load(str(tmp_path))
    assert "tokenizer.json" in caught.value.advice
    assert "\n" not in caught.value.message


def test_a_directory_with_a_broken_tokenizer(tmp_path: Path) -> None:
    tiny.directory(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(RenderError, match="its tokenizer cannot be loaded"):
        tokenizers.load(str(tmp_path))


def _load_apart(model: Path | str, **environment: str) -> str:
    """Load in a process of its own, which has nothing on stdin; what it prints."""
    code = f"""
from draftmill.errors import RenderError
from draftmill.render import tokenizer
try:
    tokenizer.load({str(model)!r})
except RenderError as error:
    print(error.message, "->", error.advice)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        env=os.environ | environment,
        check=True,
    )
    assert "Retrying" not in done.stderr
    return done.stdout


def test_a_hub_id_without_the_hub(tmp_path: Path) -> None:
    said = _load_apart("draftmill-tests/nothing", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert "model 'draftmill-tests/nothing': its tokenizer cannot be loaded" in said
    assert "is no directory here" in said
    assert "trust_remote_code" not in said


def test_a_hub_that_does_not_answer_is_asked_but_once(tmp_path: Path) -> None:
    """Its client would try for most of a minute, and print a line each time."""
    with serving(tmp_path) as hub:
        hub.hangs_up = True
        said = _load_apart("owner/name", **hub.environment(tmp_path / "home"))
    assert "model 'owner/name': its tokenizer cannot be loaded: the hub cannot be reached (" in said
    assert "`hf download owner/name --local-dir name`" in said
    assert sum("/models/" in path or "/resolve/" in path for path in hub.asked) == 1


CODE = """
from transformers import PreTrainedTokenizerFast
print("own code runs")
class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def own_code(tmp_path: Path) -> Path:
    """A tokenizer directory that brings a class of its own."""
    folder = tiny.directory(tmp_path / "model")
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text()) | {"tokenizer_class": "OwnTokenizer"}
    path.write_text(json.dumps(config | {"auto_map": {"AutoTokenizer": ["own.OwnTokenizer", None]}}))
    (folder / "own.py").write_text(CODE)
    return folder


def test_a_models_own_code_is_refused_without_asking(own_code: Path, tmp_path: Path) -> None:
    said = _load_apart(own_code, HF_MODULES_CACHE=str(tmp_path / "modules"))
    assert "contains custom code" in said
    assert "write `trust_remote_code: true` into the recipe" in said
    assert "own code runs" not in said
    assert "[y/N]" not in said


def test_a_models_own_code_runs_where_it_is_trusted_and_travels_with_the_copy(own_code: Path, tmp_path: Path) -> None:
    first = tokenizers.load(str(own_code), trust_remote_code=True)
    assert type(first.inner).__name__ == "OwnTokenizer"
    first.save(tmp_path / "copy")
    again = tokenizers.load(str(tmp_path / "copy"), trust_remote_code=True)
    assert type(again.inner).__name__ == "OwnTokenizer"
    assert again.digest() == first.digest()
    with pytest.raises(RenderError, match="contains custom code"):
        tokenizers.load(str(tmp_path / "copy"))
