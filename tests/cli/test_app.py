import re
import subprocess
import sys
from pathlib import Path

import pytest

from draftmill import __version__
from tests.cli.command import draftmill, environment, in_process

VERBS = ("quickstart", "init", "prepare", "run", "control", "drift", "export")
HEAVY = {
    "transformers",
    "tokenizers",
    "datasets",
    "pyarrow",
    "pandas",
    "numpy",
    "aiohttp",
    "uvloop",
    "pydantic",
    "gguf",
}


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "draftmill", "--help"],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "typer" in imported
    assert not imported & HEAVY


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_and_a_help_that_fits(verb: str) -> None:
    done = draftmill(verb, "--help", COLUMNS="80")
    assert done.returncode == 0 and "…" not in done.stdout
    assert f"Example: draftmill {verb}" in re.sub(r"\s+", " ", done.stdout)


@pytest.mark.parametrize(
    "args", [("nonsense",), ("run",), ("run", "r.yaml", "--limit", "0"), ("export", "x", "--format", "nope")]
)
def test_a_usage_fault_exits_2(args: tuple[str, ...]) -> None:
    done = draftmill(*args)
    assert done.returncode == 2 and "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["nowhere", "empty"])
@pytest.mark.parametrize(
    "args",
    [
        ("monitor", "RUN", "--once"),
        ("monitor", "RUN", "--json"),
        ("report", "RUN"),
        ("control", "RUN"),
        ("control", "RUN", "--pause"),
        ("drift", "RUN"),
        ("verify", "RUN"),
        ("export", "RUN"),
        ("adopt", "old", "RUN"),
        ("adopt", "RUN", "RUN"),
        ("diff", "RUN", "RUN"),
        ("compare", "embedded", "embedded", "--prompts", "RUN"),
        *((verb, "RUN") for verb in ("plan", "serve", "prepare", "run")),
    ],
    ids=" ".join,
)
def test_a_folder_without_a_run_is_a_usage_fault_of_every_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], place: str
) -> None:
    """And nothing is written there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    done = in_process(*(place if arg == "RUN" else arg for arg in args))
    assert done.returncode == 2 and place in done.stderr, done.stdout + done.stderr
    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]


def test_the_version() -> None:
    assert draftmill("--version").stdout == f"draftmill {__version__}\n"


def test_a_folder_without_a_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = in_process("prepare", "recipe.yaml", "--out", "")
    assert done.returncode == 2 and "is empty" in done.stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    done = in_process("run", "recipe.yaml", "--out", "file/run")
    assert done.returncode == 2 and "file is a file: name a folder for the run" in done.stderr


def test_ctrl_c_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever a verb is at: typer itself would end without a word."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    monkeypatch.setattr("draftmill.verify.judge.verify_file", interrupted)
    done = in_process("verify", rows)
    assert (done.returncode, done.stdout, done.stderr.split()) == (130, "", ["stopped", "interrupted"])
