"""A real run, kept: what the embedded engine said once, so that what chance made of it stays what it is.

``python -m tests.verify.recorded`` records it anew.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.command import draftmill, write_jsonl, write_recipe

JOURNALS = Path(__file__).parent / "recorded"
THINGS = ("tea", "a glacier", "the number 7", "rust", "a violin", "fog", "chess", "bread", "a comet", "moss")
ASKS = {
    "facts": ("Tell me about {}.", "What is {}? One word."),
    "short": ("Say only {}.", "Is {} nice? Say yes or no."),
}


def recipe(folder: Path, model: str, engine: Any) -> Path:
    """80 answers of up to 40 tokens in two datasets."""
    for name, asks in ASKS.items():
        texts = [ask.format(thing) for ask in asks for thing in THINGS]
        write_jsonl(folder / f"{name}.jsonl", [{"messages": [{"role": "user", "content": text}]} for text in texts])
    return write_recipe(
        folder / "recipe.yaml",
        model=model,
        engines=[engine],
        lanes={"short": {"max_new_tokens": 40}},
        datasets=[{"name": name, "source": f"{name}.jsonl", "n": 2} for name in ASKS],
    )


def rebuilt(folder: Path, model: str) -> Path:
    """The run once more: prompts and rows are made, the answers are those that were recorded."""
    asked, run = recipe(folder, model, "http://127.0.0.1:9"), folder / "run"
    prepared = draftmill("prepare", asked, "--out", run)
    assert prepared.returncode == 0, prepared.stderr
    for name in ASKS:
        shutil.copy(JOURNALS / f"{name}.jsonl", run / name / "raw_responses.jsonl")
    done = draftmill("run", asked, "--out", run)  # nothing is owed, so that no engine is asked
    assert done.returncode == 0, done.stderr
    return run


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        asked = recipe(folder, "smollm2", {"kind": "embedded", "slots": 4, "context": 512})
        done = draftmill("run", asked, "--out", folder / "run")
        assert done.returncode == 0, done.stderr
        for name in ASKS:
            shutil.copy(folder / "run" / name / "raw_responses.jsonl", JOURNALS / f"{name}.jsonl")


if __name__ == "__main__":
    main()
