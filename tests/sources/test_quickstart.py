"""The example that is packaged with draftmill: its recipe is valid and every row of its datasets can be read."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from draftmill import recipe
from draftmill.records import SourceRow
from draftmill.sources import open_source

FOLDER = Path(str(files("draftmill") / "examples" / "quickstart"))
RECIPE = recipe.load(FOLDER / "recipe.yaml")
FORMATS = {"chat": "sharegpt", "coding": "prompt", "tools": "messages", "multiturn": "turns"}
LONGEST_CHARACTERS = 3000  # about 700 tokens: they fit a context of 2,048 together with 128 new ones


def test_the_recipe() -> None:
    assert {d.name for d in RECIPE.datasets} == set(FORMATS)
    assert (RECIPE.sampling.temperature, RECIPE.sampling.top_p) == (1.0, 0.95)
    assert RECIPE.lanes["short"].max_new_tokens == 128


@pytest.mark.parametrize("name", FORMATS)
def test_every_row_is_read_and_short_enough(name: str) -> None:
    source = open_source(RECIPE.dataset(name), FOLDER)
    assert source.format == FORMATS[name]
    rows = list(source.rows())
    conversations = [row.conversation for row in rows if isinstance(row, SourceRow)]
    assert len(conversations) == len(rows) >= 30
    texts = [json.dumps([c.messages, c.tools], ensure_ascii=False) for c in conversations]
    assert len(set(texts)) == len(texts)
    assert max(map(len, texts)) < LONGEST_CHARACTERS


def test_what_the_datasets_show() -> None:
    def ends(name: str) -> list[str]:
        rows = [r for r in open_source(RECIPE.dataset(name), FOLDER).rows() if isinstance(r, SourceRow)]
        return [row.conversation.messages[-1]["role"] for row in rows]

    assert ends("tools").count("tool") >= 10
    assert set(ends("chat")) == {"user"}
