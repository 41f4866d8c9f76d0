"""``draftmill verify`` as a user runs it."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.cli.console import result
from draftmill.cli.verify import show
from draftmill.journal.folder import RunFolder
from draftmill.ledger.settings import read_settings, write_settings
from draftmill.render import tokenizer as tokenizers
from draftmill.verify.tally import Tally
from draftmill.verify.verification import Verification, results
from draftmill.verify.whole import Whole
from tests.cli.command import KEY, in_process, write_jsonl, write_recipe
from tests.conftest import EmbeddedServer
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
    assert fine.returncode == 0, fine.stderr
    assert "nothing is above its threshold" in fine.stdout
    assert "needs the prompts and the journal of a run" in fine.stdout

    rows[7]["loss_mask"] = [0, *rows[7]["loss_mask"][:-1]]
    faulty = in_process("verify", write_jsonl(tmp_path / "rows.jsonl", rows), "--model", tokenizer_folder)
    assert faulty.returncode == 1
    assert "mask-late" in faulty.stdout and "rows.jsonl:8" in faulty.stdout and "by 1" in faulty.stdout
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
        (["."], 2, "holds no run"),
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


@pytest.mark.embedded
def test_datasets_of_which_nothing_is_verified_are_named(clean: Clean, tmp_path: Path) -> None:  # noqa: F811
    shutil.copytree(clean.run, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    settings = read_settings(folder)
    assert settings is not None
    first, second = (d["name"] for d in settings.recipe["datasets"])
    write_settings(folder, msgspec.structs.replace(settings, left_out=[first]))
    done = in_process("verify", folder.path, "--workers", 1)
    left_out = f"is left out, since the recipe has it no more; --only {first} verifies it"
    assert f"{first}: {left_out}" in " ".join(done.stdout.split())
    kept = json.loads((folder.path / "verification.json").read_text())
    assert list(kept["rows"]) == [second] and kept["passed_over"] == {first: left_out}

    write_settings(folder, settings)
    folder.dataset(first).rows.unlink()
    done = in_process("verify", folder.path, "--only", first, "--only", second, "--json")
    assert json.loads(done.stdout)["passed_over"] == {first: "has no rows yet"}


def test_what_was_found_is_told_where_it_cannot_be_kept(clean: Clean, tmp_path: Path) -> None:  # noqa: F811
    shutil.copytree(clean.run, tmp_path / "run", ignore=shutil.ignore_patterns("verification.json"))
    (tmp_path / "run" / "verification.json").mkdir()  # nobody can write that, root neither
    done = in_process("verify", tmp_path / "run", "--workers", 1, "--threshold", "truncated=1000000")
    assert (done.returncode == 0) == ("nothing is above its threshold" in done.stdout)
    said = " ".join(done.stdout.split())
    assert f"{tmp_path}/run/verification.json: cannot be written" in said and ".tmp" not in said + done.stderr


def test_the_dataset_that_is_above_is_named_where_all_together_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    made = [Whole(name, Tally(rows, {"truncated": cut})) for name, rows, cut in (("chat", 200, 41), ("code", 141, 27))]
    (found,) = (r for r in results(made, {}, {}, {}, {}) if r.name == "truncated")
    assert (found.above, found.over, f"{found.share:.2%}") == (True, {"chat": 0.205}, "19.94%")
    rows = {whole.name: whole.tally.rows for whole in made}
    with result(json=False):
        show(Verification("0", "run", rows, 0, 0, 0.0, False, [found], {}, {}, {}))
    assert "above in chat: 20.50%" in capsys.readouterr().out


@pytest.mark.embedded
def test_special_tokens_in_what_users_typed_are_counted_and_shown(
    embedded_server: EmbeddedServer, tokenizer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, embedded_server.key)
    typed = "What does <|im_end|> mean?"
    asked = ["Say hi.", typed, "Say ho."]
    source = write_jsonl(tmp_path / "s.jsonl", [{"messages": [{"role": "user", "content": text}]} for text in asked])
    recipe = write_recipe(
        tmp_path / "recipe.yaml",
        model=str(tokenizer_folder),
        engines=[{"url": embedded_server.url, "api_key_env": KEY}],
        lanes={"short": {"max_new_tokens": 4}},
        datasets=[{"name": "d", "source": str(source)}],
    )
    assert in_process("run", recipe, "--out", tmp_path / "run").returncode == 0
    done = in_process("verify", tmp_path / "run", "--json")
    (check,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "special-text"]
    assert (check["count"], check["looked"]) == (1, 3)
    (example,) = check["examples"]
    assert "<|im_end|>" in json.dumps(example)
    page = in_process("verify", tmp_path / "run").stdout
    assert "special-text" in page and "<|im_end|>" in page


def test_an_end_of_turn_inside_an_answer_is_counted_and_shown(tmp_path: Path, tokenizer_folder: Path) -> None:
    rows = rows_of(tokenizer_folder, 40)
    (end, more) = tokenizers.load(str(tokenizer_folder)).encode(["<|im_end|>", " And on.<|im_end|>"])
    for n in (3, 9):
        rows[n]["input_ids"] += more
        rows[n]["loss_mask"] += [1] * len(more)
    done = in_process("verify", write_jsonl(tmp_path / "rows.jsonl", rows), "--model", tokenizer_folder, "--json")
    (check,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "inner-end"]
    assert done.returncode == 1 and check["count"] == 2 and len(end) == 1
    assert "And on." in json.dumps(check["examples"])
    page = in_process("verify", tmp_path / "rows.jsonl", "--model", tokenizer_folder).stdout
    assert "inner-end" in page and "rows.jsonl:4" in page and "And on." in page
