"""Run folders for the tests: prompts, journals of all shapes, loads and events, written as a run writes them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.ledger.order import conversation_id
from draftmill.ledger.settings import Settings, write_settings
from draftmill.recipe import Recipe
from draftmill.records import Completion, Failure, Finish, Prompt

NOW = 1_700_000_000.0


def prompt_id(n: int, dataset: str = "d") -> str:
    return conversation_id(dataset, b"%d" % n, 0)


def completion(n: int, tokens: int = 5, dataset: str = "d", **fields: Any) -> Completion:
    line = Completion(prompt_id(n, dataset), n, 0, [7] * tokens, 3, tokens, Finish.STOP, 2, 0, 1.5, "http://e", 64)
    return msgspec.structs.replace(line, **fields)


def failure(n: int, reason: str = "no", dataset: str = "d", **fields: Any) -> Failure:
    row = Failure(prompt_id(n, dataset), n, 0, "prompt", reason, 1, "http://e", f"d.jsonl:{n + 1}")
    return msgspec.structs.replace(row, **fields)


def write_prompts(folder: DatasetFolder, number: int) -> None:
    folder.path.mkdir(parents=True, exist_ok=True)
    lines = [encode(Prompt(prompt_id(n, folder.name), n, "short", [], [1, 2, 3])) + b"\n" for n in range(number)]
    folder.prompts.write_bytes(b"".join(lines))


def append(path: Path, *lines: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else encode(line) + b"\n")


def begin(path: Path, *datasets: dict[str, Any], **recipe: Any) -> RunFolder:
    """A run that has its settings and the prompts of its datasets, ``prompts`` each."""
    folder = RunFolder(path)
    folder.create()
    numbers = {d["name"]: d.pop("prompts", 10) for d in datasets}
    made = Recipe.model_validate(
        {"model": "m", "engines": ["http://e"], "datasets": [{"source": "x.jsonl", **d} for d in datasets], **recipe}
    )
    write_settings(folder, Settings("0.1.0", "2026-01-01", made.model_dump(mode="json"), {}, "", "", 200_000, [2]))
    for name, number in numbers.items():
        write_prompts(folder.dataset(name), number)
    return folder


def event(at: float, kind: str, subject: str = "run", message: str = "") -> dict[str, Any]:
    time = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return {"time": time, "kind": kind, "subject": subject, "message": message}


def load(at: float, engine: str = "http://e", **fields: Any) -> dict[str, Any]:
    own = {"state": "open", "in_flight": 8, "cap": 8}
    sample = {"running": 8, "queued": 0} | {k: v for k, v in fields.items() if k not in own}
    line = {"time": at, "engine": engine, **own} | {k: v for k, v in fields.items() if k in own}
    return line | {"load": sample if fields.get("running", 0) is not None else None}


def done(at: float, **datasets: tuple[int, int, int, int]) -> dict[str, Any]:
    names = ("answers", "failed", "tokens", "growing")
    return {"time": at, "done": {d: dict(zip(names, counts, strict=True)) for d, counts in datasets.items()}}
