"""Tokenizers rebuilt from GGUF files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from draftmill.errors import RenderError
from draftmill.render import gguf as rendered_gguf
from draftmill.render import tokenizer as tokenizers
from draftmill.render.gguf import gguf_stop_ids, load_gguf_tokenizer
from draftmill.render.tokenizer import Tokenizer
from tests.render import tiny

# as llama.cpp's own /tokenize gives them for the small model
GOLDEN = [
    ("Hello, world!", [19556, 28, 905, 17]),
    ("12345.678", [33, 34, 35, 36, 37, 30, 38, 39, 40]),
    ("½ ² ٣٤٥", [16738, 216, 19133, 216, 164, 113, 164, 114, 164, 115]),
    ("  two  spaces", [216, 827, 216, 5600]),
    ("\n\n\nx\r\n\ty\t", [1116, 198, 104, 2738, 197, 105, 197]),
    ("don't you'll I'VE", [12420, 982, 346, 3060, 339, 23, 18525]),
    ("🙂👩\u200d💻", [10813, 38887, 10813, 235, 119, 321, 231, 10813, 236, 136]),
    ("中文", [28589, 29184]),
    ("a\u0301é", [81, 151, 219, 2756]),
    ("<|im_start|>user\nhi<|im_end|>\n", [1, 4093, 198, 6004, 2, 198]),
    ("x<|endoftext|>y<|im_end|><|im_end|>", [104, 0, 105, 2, 2]),
    ("<|im_start>", [44, 108, 306, 79, 3738, 46]),
    ("x\u00a0y\u3000z", [104, 15442, 105, 12109, 218, 106]),
    (" ", [216]),
    ("", []),
]


@pytest.fixture(scope="module")
def small(small_model: Path) -> Tokenizer:
    return tokenizers.load(str(small_model))


@pytest.mark.parametrize(("text", "ids"), GOLDEN)
def test_the_small_models_ids(small: Tokenizer, text: str, ids: list[int]) -> None:
    assert small.encode([text]) == [ids]
    assert small.decode(ids) == text


@pytest.mark.embedded
def test_the_golden_ids_are_llamacpps(embedded_server, with_embedded) -> None:  # type: ignore[no-untyped-def]
    async def tokenize(engine):  # type: ignore[no-untyped-def]
        return [await engine.tokenize(text) for text, _ in GOLDEN]

    assert with_embedded(tokenize) == [ids for _, ids in GOLDEN]


def test_what_the_small_model_says_of_itself(small: Tokenizer, small_model: Path) -> None:
    assert small.size == 49152
    assert small.stop_ids == gguf_stop_ids(small_model) == [2]
    assert small.special["<|im_start|>"] == 1
    assert "<|im_start|>" in small.inner.chat_template


def test_a_saved_tokenizer_is_the_same_when_it_is_loaded_again(small: Tokenizer, tmp_path: Path) -> None:
    small.save(tmp_path)
    again = tokenizers.load(str(tmp_path))
    texts = [text for text, _ in GOLDEN]
    assert again.encode(texts) == small.encode(texts)
    assert (again.digest(), again.stop_ids, again.size) == (small.digest(), small.stop_ids, small.size)
    assert again.special == small.special
    assert again.inner.chat_template == small.inner.chat_template


def test_no_torch_is_imported(small_model: Path) -> None:
    code = f"""
import sys
from draftmill.records import Conversation
from draftmill.render import tokenizer
from draftmill.render.template import ChatTemplate
loaded = tokenizer.load({str(small_model)!r})
template = ChatTemplate(loaded, "2026-01-31")
template.text(Conversation([{{"role": "user", "content": "hi"}}]), {{}})
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# how each family of pre-tokenisers cuts a text; llama.cpp's own ids agree where it serves such a file
SPLITS = {
    "gpt-2": ["I", "'", "VE", " 12345", " ½", " x", ".", "\n\n ", " y", "'s", "\r", "\n", "z", "  "],
    "smollm": ["I", "'", "VE", " ", *"12345", " ", "½", " x", ".", "\n\n ", " y", "'s", "\r", "\n", "z", "  "],
    "llama-bpe": ["I", "'VE", " ", "123", "45", " ", "½", " x", ".\n\n", " ", " y", "'s", "\r\n", "z", "  "],
    "qwen2": ["I", "'VE", " ", *"12345", " ", "½", " x", ".\n\n", " ", " y", "'s", "\r\n", "z", "  "],
}
TEXT = "I'VE 12345 ½ x.\n\n  y's\r\nz  "


@pytest.mark.parametrize("pre", sorted(SPLITS))
def test_how_a_pre_tokeniser_cuts(pre: str, tmp_path: Path) -> None:
    inner = load_gguf_tokenizer(tiny.gguf_file(tmp_path / "m.gguf", pre=pre))
    pieces = inner.backend_tokenizer.pre_tokenizer.pre_tokenize_str(TEXT)
    assert [TEXT[start:end] for _, (start, end) in pieces] == SPLITS[pre]


@pytest.mark.parametrize(
    ("pre", "digits"), [("gpt-2", ["123"]), ("smollm", ["1", "2", "3"]), ("llama-bpe", ["123"]), ("qwen2", list("123"))]
)
def test_ids_of_a_tiny_file(pre: str, digits: list[str], tmp_path: Path) -> None:
    loaded = tokenizers.load(str(tiny.gguf_file(tmp_path / "m.gguf", pre=pre, eos=tiny.END)))
    expected = [tiny.START, tiny.VOCABULARY.index("hi"), tiny.VOCABULARY.index("Ġhi")]
    assert loaded.encode(["<|start|>hi hi<|end|>", "123<|call|>"]) == [
        [*expected, tiny.END],
        [*map(tiny.VOCABULARY.index, digits), tiny.CALL],
    ]


def test_special_and_user_defined_tokens(tmp_path: Path) -> None:
    loaded = tokenizers.load(str(tiny.gguf_file(tmp_path / "m.gguf", eos=tiny.END, eot=tiny.CALL)))
    assert loaded.special == {"<|start|>": tiny.START, "<|end|>": tiny.END, "<|call|>": tiny.CALL}
    assert loaded.inner.all_special_tokens == ["<|end|>"]
    assert loaded.decode([tiny.START, tiny.CALL, tiny.END]) == "<|start|><|call|><|end|>"
    assert loaded.stop_ids == [tiny.END, tiny.CALL]


def test_every_known_pre_tokeniser_can_be_built(tmp_path: Path) -> None:
    for pre in rendered_gguf._PATTERNS:
        loaded = tokenizers.load(str(tiny.gguf_file(tmp_path / f"{pre}.gguf", pre=pre)))
        assert loaded.decode(loaded.encode([TEXT])[0]) == TEXT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pre": "kimi-k2"}, "has the pre-tokeniser kimi-k2, which is not known; there are gpt-2, "),
        ({"pre": "default"}, "has the pre-tokeniser default, which is not known"),  # llama.cpp's own guess
        ({"pre": None}, "names no pre-tokeniser"),
        ({"model": "llama"}, "its tokenizer (llama) cannot be rebuilt"),  # SentencePiece
        ({"model": "t5"}, "its tokenizer (t5) cannot be rebuilt"),
        ({"tokens": ["a", "b"]}, "its tokenizer is damaged"),
        ({"merges": ["no such"]}, "its tokenizer is damaged"),
        ({"eos": 100_000}, "its tokenizer is damaged"),
    ],
)
def test_a_file_that_cannot_be_rebuilt(options, message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tiny.gguf_file(tmp_path / "m.gguf", **options)
    with pytest.raises(RenderError, match=r"m\.gguf") as caught:
        tokenizers.load(str(path))
    assert message in caught.value.message
    assert not re.search(r"Error\(|'", caught.value.message), "words of Python"
    assert "`tokenizer:`" in caught.value.advice


@pytest.mark.parametrize("size", [0, 3, 4, 20, 100, 1000, 4000])
def test_a_torn_file(size: int, tmp_path: Path) -> None:
    whole = tiny.gguf_file(tmp_path / "whole.gguf").read_bytes()
    assert len(whole) > 4000
    path = tmp_path / "torn.gguf"
    path.write_bytes(whole[:size])
    with pytest.raises(RenderError, match=r"torn.gguf: is not a whole GGUF file"):
        tokenizers.load(str(path))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "words.gguf").write_text("these are words" * 100)
    with pytest.raises(RenderError, match="is not a whole GGUF file"):
        tokenizers.load(str(tmp_path / "words.gguf"))
    with pytest.raises(RenderError, match="no such file"):
        tokenizers.load(str(tmp_path / "none.gguf"))
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(RenderError, match="cannot be read: Is a directory"):
        tokenizers.load(str(tmp_path / "folder.gguf"))
