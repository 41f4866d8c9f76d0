"""A dataset's rows become prompts, or rows that are passed through."""

import json
from pathlib import Path
from typing import Any

import pytest

from draftmill.errors import SourceError
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.standing import load_standing
from draftmill.mill.prepared import Prepared, read_prepared
from draftmill.mill.prompts import Preparation
from draftmill.recipe import Dataset
from draftmill.render import tokenizer
from draftmill.render.dialect import Dialect
from draftmill.render.template import ChatTemplate
from draftmill.sources import open_source
from tests.render.tiny import END, SPECIAL, VOCABULARY, directory

SIZE = len(VOCABULARY) + len(SPECIAL)


def prepare(tmp_path: Path, rows: list[Any], **fields: Any) -> tuple[DatasetFolder, Prepared]:
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = Dataset(name="d", source="d.jsonl", **fields)
    loaded = tokenizer.load(str(directory(tmp_path / "model")))
    dialect = Dialect(loaded, ChatTemplate(loaded, "2026-01-01"), {})
    folder = DatasetFolder(tmp_path / "run")
    preparation = Preparation(dataset, folder, seed=0, tokenizer=loaded, dialect=dialect)
    return folder, preparation.run(open_source(dataset, tmp_path))


def lines(folder: DatasetFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in folder.prompts.read_text().splitlines()]


def tokenized(*ids: int) -> dict[str, Any]:
    return {"input_ids": list(ids), "loss_mask": [0] + [1] * (len(ids) - 1)}


def test_tokenized_rows_keep_their_ids_and_are_ordered_like_all_others(tmp_path: Path) -> None:
    rows = [tokenized(n, n + 1, END) for n in range(9)]
    folder, report = prepare(tmp_path, rows)
    found = lines(folder)
    assert {tuple(line["prompt_ids"]) for line in found} == {tuple(row["input_ids"]) for row in rows}
    assert all(line["loss_mask"] == [0, 1, 1] and line["messages"] == [] for line in found)
    assert [line["position"] for line in found] == list(range(9))
    assert [line["where"].rpartition(":")[2] for line in found] != [str(n) for n in range(1, 10)], (
        "by rank, not by line"
    )
    assert (report.format, report.passed_through, report.without_special, report.prompt_tokens) == (
        "tokenized",
        9,
        0,
        27,
    )
    again = tmp_path / "again"
    again.mkdir()
    assert [line["id"] for line in lines(prepare(again, rows[::-1])[0])] == [line["id"] for line in found]
    tally = load_standing(folder, samples=5, budget=7).tally()
    assert (tally.passed_through, tally.not_needed, tally.owed, tally.counting_tokens) == (4, 5, 0, 8)


def test_ids_beyond_the_vocabulary_are_unread_rows(tmp_path: Path) -> None:
    folder, report = prepare(tmp_path, [tokenized(1, SIZE - 1), tokenized(1, SIZE), tokenized(1)])
    assert (report.read, report.unread, report.passed_through) == (3, 2, 1)
    unread = [json.loads(line) for line in folder.unread.read_text().splitlines()]
    assert [(row["where"]["line"], row["reason"]) for row in unread] == [
        (2, f"item 2 of 'input_ids' is {SIZE}: the model's vocabulary ends at {SIZE - 1}"),
        (3, "no token of 'input_ids' is supervised: its mask is 0 everywhere"),
    ]


def test_rows_without_one_of_the_models_special_tokens_are_counted(tmp_path: Path) -> None:
    assert prepare(tmp_path, [tokenized(1, END), tokenized(1, 2), tokenized(3, 4)])[1].without_special == 2


@pytest.mark.parametrize(
    ("fields", "what"), [({"n": 2}, "n: 2"), ({"system": "s"}, "system"), ({"n": 3, "system": ""}, "n: 3 and system")]
)
def test_what_asks_for_answers_does_not_go_with_tokenized_rows(
    tmp_path: Path, fields: dict[str, Any], what: str
) -> None:
    with pytest.raises(SourceError, match=f"dataset d: its rows are tokenized already: {what} cannot apply"):
        prepare(tmp_path, [tokenized(1, 2)], **fields)


def test_equal_rows_are_told_and_keep_ids_of_their_own(tmp_path: Path) -> None:
    folder, report = prepare(tmp_path, [tokenized(1, 2), tokenized(1, 2), {**tokenized(1, 2), "loss_mask": [1, 1]}])
    assert report.repeated == 1 and len({line["id"] for line in lines(folder)}) == 3


def test_conversations_are_rendered_and_what_the_template_refuses_keeps_its_place(tmp_path: Path) -> None:
    asks = [{"messages": [{"role": "user", "content": f"hi {n}"}]} for n in range(300)]  # more than one batch
    folder, report = prepare(tmp_path, asks)
    assert (report.positions, report.passed_through, report.refused) == (300, 0, 0)
    assert read_prepared(folder) == report
    assert all(line["prompt_ids"] and "loss_mask" not in line for line in lines(folder))
