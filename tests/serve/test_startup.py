"""Start-up lines of every version that is known, and what is read of them."""

import json
from pathlib import Path

import msgspec
import pytest

from draftmill.serve.startup import Startup, read

GIB = 2**30

MEMORY = ("free", "loaded", "left")
TABLE = Path(__file__).with_name("startup.tsv").read_text().splitlines()  # figures (memory in GiB), line
LINES = [(line, json.loads(said)) for said, line in (row.split("\t") for row in TABLE)]


@pytest.mark.parametrize(("line", "said"), LINES, ids=[line[:50] for line, _ in LINES])
def test_a_line(line: str, said: dict[str, float]) -> None:
    assert msgspec.to_builtins(read([line])) == {
        name: pytest.approx(said[name] * GIB) if name in said and name in MEMORY else said.get(name)
        for name in Startup.__struct_fields__
    }


def test_of_several_ranks_the_one_with_the_least_memory_counts() -> None:
    lines = [f"[TP{rank}] Load weight begin. avail mem={free} GB" for rank, free in enumerate((94.1, 94.04, 94.2))]
    assert read(lines).free == 94.04 * GIB


def test_a_later_line_replaces_an_earlier_one() -> None:
    lines = ["KV Cache is allocated. #tokens: 1000", "max_total_num_tokens=990, context_len=100"]
    assert read(lines) == Startup(tokens=990, context=100)
