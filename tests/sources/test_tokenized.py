from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.sources import tokenized
from draftmill.sources.fault import RowFault

IDS = [1, 15, 27, 2]


@pytest.mark.parametrize(
    ("row", "ids", "mask"),
    [
        ({"input_ids": IDS, "loss_mask": [0, 0, 1, 1]}, IDS, [0, 0, 1, 1]),
        ({"input_ids": IDS}, IDS, [1, 1, 1, 1]),
        ({"input_ids": IDS, "labels": [-100, -100, 27, 2], "attention_mask": [1, 1, 1, 1]}, IDS, [0, 0, 1, 1]),
        (  # padded to one length, on both sides
            {"input_ids": [0, 0, *IDS, 0], "attention_mask": [0, 0, 1, 1, 1, 1, 0], "loss_mask": [0, 0, 0, 1, 0, 1, 0]},
            IDS,
            [0, 1, 0, 1],
        ),
        ({"input_ids": IDS, "loss_mask": [False, True, False, True]}, IDS, [0, 1, 0, 1]),
        ({"input_ids": IDS, "loss_mask": None, "labels": IDS, "attention_mask": None}, IDS, [1, 1, 1, 1]),
        ({"input_ids": IDS, "assistant_masks": [0, 1, 1, 0], "id": "x", "text": "…"}, IDS, [0, 1, 1, 0]),
        ({"input_ids": IDS, "loss_mask": [0, 1, 1, 1], "labels": [-100, 15, 27, 2]}, IDS, [0, 1, 1, 1]),
    ],
)
def test_golden_rows(row: dict[str, Any], ids: list[int], mask: list[int]) -> None:
    assert str(tokenized.recognise(row)).startswith("column 'input_ids' is a list of token ids, ")
    assert tokenized.read(row) == tokenized.Tokenized(ids, mask)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "no column 'input_ids'"),
        ({"input_ids": []}, "column 'input_ids' is an empty array"),
        ({"input_ids": "1 2"}, "column 'input_ids' is a string, not an array"),
        ({"input_ids": [[1, 2]]}, "item 1 of 'input_ids' is an array, not a whole number"),
        ({"input_ids": [1, 2.5]}, "item 2 of 'input_ids' is 2.5, not a whole number"),
        ({"input_ids": [1, True]}, "item 2 of 'input_ids' is a boolean, not a whole number"),
        ({"input_ids": [1, None]}, "item 2 of 'input_ids' is null, not a whole number"),
        ({"input_ids": [1, -7]}, "item 2 of 'input_ids' is -7: ids are 0 or more"),
        ({"input_ids": IDS, "loss_mask": [0, 1]}, "'loss_mask' has 2 items, 'input_ids' has 4"),
        ({"input_ids": IDS, "loss_mask": [0, 1, 2, 1]}, "item 3 of 'loss_mask' is 2, not 0 or 1"),
        ({"input_ids": IDS, "loss_mask": [0, 0, 0, 0]}, "no token of 'input_ids' is supervised"),
        ({"input_ids": IDS, "loss_mask": "0011"}, "column 'loss_mask' is a string, not an array"),
        ({"input_ids": IDS, "labels": [-100] * 4}, "no token of 'input_ids' is supervised"),
        ({"input_ids": IDS, "labels": [-100, 27, 2, -100]}, "item 2 of 'labels' is 27, neither -100 nor the id 15"),
        ({"input_ids": IDS, "labels": [1, 15, 27]}, "'labels' has 3 items, 'input_ids' has 4"),
        ({"input_ids": IDS, "loss_mask": [0, 1, 1, 1], "labels": IDS}, "'loss_mask' and 'labels' differ at item 1"),
        ({"input_ids": IDS, "attention_mask": [1, 0, 1, 1]}, "item 2 of 'attention_mask' is 0 between ids"),
        ({"input_ids": IDS, "attention_mask": [0, 0, 0, 0]}, "'attention_mask' is 0 everywhere"),
        (
            {"input_ids": IDS, "attention_mask": [1, 1, 1, 0], "loss_mask": [0, 0, 0, 1]},
            "no token of 'input_ids' is supervised",
        ),
    ],
)
def test_faults(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowFault) as caught:
        tokenized.read(row)
    assert caught.value.reason.startswith(reason)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 1)), min_size=1), st.integers(0, 3), st.integers(0, 3))
def test_labels_and_masks_say_the_same_and_padding_goes(pairs: list[tuple[int, int]], left: int, right: int) -> None:
    ids, mask = [id for id, _ in pairs], [m for _, m in pairs]
    row = {
        "input_ids": [0] * left + ids + [0] * right,
        "labels": [-100] * left + [id if m else -100 for id, m in pairs] + [-100] * right,
        "attention_mask": [0] * left + [1] * len(ids) + [0] * right,
    }
    if any(mask):
        assert tokenized.read(row) == tokenized.Tokenized(ids, mask)
    else:
        with pytest.raises(RowFault, match="supervised"):
            tokenized.read(row)


def test_other_rows() -> None:
    for value in ([], ["a"], "1", None, [[1]], [True], [1.0]):
        assert tokenized.recognise({"input_ids": value}) is None
