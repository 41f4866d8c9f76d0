"""What only a tokenizer tells: thinking, calls, ids of another one; in tiny models with the markers of real ones."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from draftmill.examples import QUICKSTART
from draftmill.ids import encode
from draftmill.records import Conversation
from draftmill.render import tokenizer as tokenizers
from draftmill.verify.checks import Severity
from draftmill.verify.judge import verify_file
from tests.render import families
from tests.verify.corruptions import trained

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def file_of(folder: Path, name: str, answers: list[str]) -> tuple[Path, str]:
    """Rows of a family's answers, and where its tokenizer lies."""
    model = families.model(name)
    model.tokenizer.save(folder / "model")
    lines = []
    for n, answer in enumerate(answers):
        asked = Conversation([{"role": "user", "content": f"What is the weather, day {n}?"}])
        prompt, said = model.ids(model.dialect.text(asked)), model.ids(answer)
        mask = [0] * len(prompt) + [1] * len(said)
        lines.append(encode({"input_ids": prompt + said, "loss_mask": mask}))
    (folder / "rows.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return folder / "rows.jsonl", str(folder / "model")


def found(path: Path, model: str) -> dict[str, int]:
    checks = verify_file(path, model=model, workers=1).checks
    return {r.name: r.count for r in checks if r.count and r.severity is not Severity.NOTE}


THOUGHT = "<think>\nI should look.\n</think>\n\n"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("The weather is fine.<|im_end|>", "thinking-missing"),
        ("<think>\nI should look at the weather.<|im_end|>", "thinking-unclosed"),
        (f"{THOUGHT}The weather</think> is fine.<|im_end|>", "marker-order"),
        (f"{THOUGHT}{CALL.replace('}}', '}')}<|im_end|>", "tool-call"),
        (f"{THOUGHT}</tool_call>{CALL}<|im_end|>", "marker-order"),
    ],
)
def test_thinking_and_calls(tmp_path: Path, fault: str, check: str) -> None:
    fine = [f"{THOUGHT}The weather is fine, day {n}.<|im_end|>" for n in range(20)]
    fine += [f"{THOUGHT}{CALL.replace('Paris', f'City {n}')}<|im_end|>" for n in range(20)]
    path, model = file_of(tmp_path, "qwen3", fine)
    assert found(path, model) == {}
    path, model = file_of(tmp_path, "qwen3", [*fine, fault])
    assert found(path, model) == {check: 1}


def test_spelled_markers(tmp_path: Path) -> None:
    """One is a token, the other is text that says the same."""
    path, model = file_of(tmp_path, "qwen3", [f"{THOUGHT}Day {n}.<|im_end|>" for n in range(20)])
    loaded = tokenizers.load(model)
    pieces = [id for text in ("<", "think", ">") for id in loaded.encode([text])[0]]
    lines = path.read_bytes().splitlines()
    row: dict[str, Any] = json.loads(lines[3])
    start = row["loss_mask"].index(1)
    row["input_ids"] = row["input_ids"][:start] + pieces + row["input_ids"][start + 1 :]
    row["loss_mask"] += [1] * (len(pieces) - 1)
    path.write_bytes(b"\n".join([*lines[:3], encode(row), *lines[4:]]) + b"\n")
    assert found(path, model)["marker-split"] == 1


def test_ids_of_another_tokenizer(tmp_path: Path, tokenizer_folder: Path) -> None:
    """Example texts in the small model's ids, a few of them in those of a tokenizer of a trained vocabulary."""
    small = tokenizers.load(str(tokenizer_folder))
    whole = "".join(file.read_text() for file in sorted(QUICKSTART.glob("*.jsonl")))
    other = trained(whole.splitlines())
    tail, rng, lines = small.encode(["<|im_start|>assistant\n"])[0], random.Random(0), []
    for n in range(400):
        at = rng.randrange(len(whole) - 900)
        text = whole[at : at + 900]
        foreign = n % 20 == 7
        said = other.encode(text).ids if foreign else small.encode([text])[0]
        said = [id for id in said if id not in small.special.values()][:150]
        lines.append(encode({"input_ids": tail + said + [2], "loss_mask": [0] * len(tail) + [1] * (len(said) + 1)}))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    done = verify_file(path, model=str(tokenizer_folder), workers=1)
    result = next(r for r in done.checks if r.name == "foreign-ids")
    assert result.above and 10 <= result.count <= 24
    assert {int(example.where.rpartition(":")[2]) % 20 for example in result.examples} == {8}
