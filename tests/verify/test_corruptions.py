"""Bar: faults as they happen in the field, in one row of twenty of a real run, are all found, each by the check that is
named for it; the run as it came is without an error."""

from pathlib import Path
from typing import NamedTuple

import pytest

from draftmill.render import tokenizer as tokenizers
from draftmill.render.tokenizer import Tokenizer
from draftmill.verify.checks import Severity
from draftmill.verify.judge import verify_file, verify_run
from draftmill.verify.verification import Verification
from tests.cli.command import KEY, in_process, write_jsonl, write_recipe
from tests.conftest import EmbeddedServer
from tests.verify.corruptions import CORRUPTIONS, Corruption, bare, corrupted, cut_to, fired

FEW = 2  # rows of each dataset that are hit

pytestmark = pytest.mark.embedded


class Clean(NamedTuple):
    """A run without a fault, the verification of it, and of its rows alone."""

    run: Path
    tokenizer: Tokenizer
    verified: Verification
    alone: Verification


# which answers of so small a run a limit cuts is chance, and whatever changes rows moves their share
CHANCE = {"truncated"}


@pytest.fixture(scope="session")
def clean(embedded_server: EmbeddedServer, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Clean:
    """Some 60 answers of up to 40 tokens in two datasets; the last ones do not count."""
    folder = tmp_path_factory.mktemp("verified")
    things = ["tea", "a glacier", "the number 7", "rust", "a violin", "fog", "chess", "bread", "a comet", "moss"]
    facts = [f"Tell me about {thing}." for thing in things] + [f"What is {thing}? One word." for thing in things]
    short = [f"Say only {thing}." for thing in things] + [f"Is {thing} nice? Say yes or no." for thing in things]
    write_jsonl(folder / "facts.jsonl", [{"messages": [{"role": "user", "content": text}]} for text in facts])
    write_jsonl(folder / "short.jsonl", [{"messages": [{"role": "user", "content": text}]} for text in short])
    recipe = write_recipe(
        folder / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=[{"url": embedded_server.url, "api_key_env": KEY}],
        lanes={"short": {"max_new_tokens": 40}},
        datasets=[{"name": name, "source": f"{name}.jsonl", "n": 2} for name in ("facts", "short")],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, embedded_server.key)
        done = in_process("run", recipe, "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    cut_to(folder / "run", 0.85)
    tokenizer = tokenizers.load(str(tokenizer_folder))
    rows = bare(folder / "run", folder / "rows.jsonl")
    verified = verify_run(folder / "run", workers=1)
    return Clean(folder / "run", tokenizer, verified, verify_file(rows, model=str(tokenizer_folder), workers=1))


def test_a_run_as_it_came_is_without_an_error(clean: Clean) -> None:
    errors = [r for r in clean.verified.checks if r.severity is Severity.ERROR]
    assert [r.name for r in errors if r.count] == []
    assert len(errors) > 20
    assert sum(clean.verified.rows.values()) >= 50
    assert [r.name for r in clean.alone.checks if r.severity is Severity.ERROR and r.above] == []


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda c: c.name)
def test_a_fault_is_found_by_the_check_that_is_named_for_it(
    clean: Clean, corruption: Corruption, tokenizer_folder: Path, tmp_path: Path
) -> None:
    if corruption.fires == {"foreign-ids"}:
        pytest.skip("so small a run says little of what is usual: test_texts has it")
    run = corrupted(clean.run, tmp_path / "run", corruption, clean.tokenizer)
    found = fired(verify_run(run, workers=1), clean.verified, FEW)
    assert (corruption.fires - found, found - corruption.fires - corruption.also - CHANCE) == (set(), set())
    rows = bare(run, tmp_path / "rows.jsonl")
    found = fired(verify_file(rows, model=str(tokenizer_folder), workers=1), clean.alone, FEW)
    assert (corruption.bare - found, found - corruption.bare - corruption.also - CHANCE) == (set(), set())


def test_there_are_enough_of_them() -> None:
    assert len(CORRUPTIONS) >= 25
