"""Digests by which a changed model is noticed."""

from pathlib import Path

from draftmill.render import model_files
from draftmill.render.model_files import fingerprint
from tests.render import tiny


def test_a_directorys_small_files(tmp_path: Path) -> None:
    tiny.directory(tmp_path, generation_config={"eos_token_id": 1}, config={"hidden_size": 8})
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    first = fingerprint(str(tmp_path))
    assert sorted(first) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert fingerprint(str(tmp_path)) == first
    (tmp_path / "chat_template.jinja").write_text("other")
    second = fingerprint(str(tmp_path))
    assert [name for name in first if first[name] != second[name]] == ["chat_template.jinja"]


def test_a_gguf_files_head_and_size(tmp_path: Path) -> None:
    path = tiny.gguf_file(tmp_path / "m.gguf")
    first = fingerprint(str(path))
    assert list(first) == ["m.gguf"]
    path.write_bytes(path.read_bytes() + b"\0")
    longer = fingerprint(str(path))
    assert longer != first
    tiny.gguf_file(path, template=tiny.TEMPLATE.replace("user", "uzer"))
    assert fingerprint(str(path)) not in (first, longer)


def test_the_metadata_of_a_big_vocabulary_stands_in_the_head(small_model: Path) -> None:
    """The chat template is the last of the metadata: 256,000 tokens and twice as many merges come before it."""
    metadata = small_model.read_bytes()[: 1 << 21]
    per_token = metadata.index(b"tokenizer.chat_template") / 49_152
    assert per_token * 256_000 < model_files._HEAD


def test_a_hub_id_has_only_its_name_and_a_path_that_is_gone_nothing_more() -> None:
    assert fingerprint("owner/name") == {"hub": "owner/name"}
    assert fingerprint("/no/such/folder") == {"hub": "/no/such/folder"}
