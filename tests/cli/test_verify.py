"""``draftmill verify`` as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftmill.render import tokenizer as tokenizers
from tests.cli.command import in_process, write_jsonl
from tests.verify.test_corruptions import Clean, clean  # noqa: F401  a fixture of the session


def rows_of(folder: Path, number: int) -> list[dict[str, Any]]:
    """Rows as other tools write theirs."""
    loaded = tokenizers.load(str(folder))
    rows = []
    for n in range(number):
        asked, said = loaded.encode(
            [f"<|im_start|>user\nCount to {n}.<|im_end|>\n<|im_start|>assistant\n", f"One, two, {n}.<|im_end|>"]
        )
        rows.append({"input_ids": asked + said, "loss_mask": [0] * len(asked) + [1] * len(said)})
    return rows


def test_a_file_of_ids_and_masks(tmp_path: Path, tokenizer_folder: Path) -> None:
    rows = rows_of(tokenizer_folder, 40)
    fine = in_process("verify", write_jsonl(tmp_path / "rows.jsonl", rows), "--model", tokenizer_folder)
    assert (fine.returncode, fine.stdout) == (0, ""), fine.stderr
    assert "nothing is above its threshold" in fine.stderr
    assert "needs the prompts and the journal of a run" in fine.stderr

    rows[7]["loss_mask"] = [0, *rows[7]["loss_mask"][:-1]]
    faulty = in_process("verify", write_jsonl(tmp_path / "rows.jsonl", rows), "--model", tokenizer_folder)
    assert faulty.returncode == 1
    assert "mask-late" in faulty.stderr and "rows.jsonl:8" in faulty.stderr and "by 1" in faulty.stderr
    allowed = in_process("verify", tmp_path / "rows.jsonl", "--threshold", "mask-late=1")
    assert allowed.returncode == 0, allowed.stderr


def test_figures_for_a_script(tmp_path: Path, tokenizer_folder: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", rows_of(tokenizer_folder, 20))
    done = in_process("verify", path, "--json")
    found = json.loads(done.stdout)
    assert found["passed"] and found["rows"] == {"rows.jsonl": 20}
    assert found["not_made"]["vocabulary"] == "needs the model's tokenizer: --model"
    names = {check["name"] for check in found["checks"]}
    assert {"mask-early", "mask-late", "duplicate", "loop", "unfinished"} <= names
    assert not names & found["not_made"].keys()


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["nowhere"], 2, "nowhere: no such file or folder"),
        (["."], 1, "holds no run"),
        (["rows.csv"], 1, "is none of .jsonl"),
        (["empty.jsonl"], 1, "holds no row"),
        (["rows.csv", "--threshold", "lop=1"], 2, "did you mean loop?"),
        (["rows.csv", "--threshold", "loop"], 2, "is not of the form check=share"),
        (["rows.csv", "--only", "chat"], 2, "names a dataset of a run"),
    ],
)
def test_what_cannot_be_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("a,b\n")
    (tmp_path / "empty.jsonl").write_text("")
    done = in_process("verify", *args)
    assert (done.returncode, said in " ".join(done.stderr.split())) == (code, True), done.stderr


@pytest.mark.embedded
def test_a_run_keeps_its_verification(clean: Clean) -> None:  # noqa: F811
    done = in_process("verify", clean.run)
    kept = json.loads((clean.run / "verification.json").read_text())
    assert kept["passed"] == (done.returncode == 0)
    assert {"name", "severity", "count", "share", "threshold", "message", "examples"} <= kept["checks"][0].keys()
    assert sum(kept["rows"].values()) == sum(rows for rows, _ in kept["lanes"].values())
