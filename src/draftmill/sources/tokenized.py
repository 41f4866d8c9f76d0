"""Rows that are tokenized already: ``input_ids``, with ``loss_mask``, ``labels`` or neither, and ``attention_mask``.

They are training rows as they stand. Padding goes, a label of -100 is a mask of 0, and without any mask every token is
learnt. Whether the ids are the target's is looked at where the target is known.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from draftmill.sources import json_text
from draftmill.sources.fault import RowFault

NAME = "tokenized"

_COLUMN = "input_ids"
_MASKS = ("loss_mask", "assistant_masks", "completion_mask")
_ATTENTION = "attention_mask"
_LABELS = "labels"
_IGNORED = -100  # the label of a token that no loss is taken of


class Tokenized(msgspec.Struct, frozen=True):
    """The ids of a row and which of them are learnt: lists of one length, the mask 0 or 1 and 1 at least once."""

    input_ids: list[int]
    loss_mask: list[int]


def recognise(row: Mapping[str, Any], column: str | None = None) -> str | None:
    """Why this row looks tokenized, or None."""
    name = column or _COLUMN
    value = row.get(name)
    if not isinstance(value, list) or not value or type(value[0]) is not int:
        return None
    mask = next((mask for mask in (*_MASKS, _LABELS) if row.get(mask) is not None), None)
    return f"column {name!r} is a list of token ids, " + (
        f"masked by {mask!r}" if mask else "with no mask: all are learnt"
    )


def read(row: Mapping[str, Any], column: str | None = None) -> Tokenized:
    """The row's ids and mask. Raises RowFault."""
    name = column or _COLUMN
    ids = _numbers(row, name)
    if not ids:
        raise RowFault(f"column {name!r} is an empty array")
    if (low := min(ids)) < 0:
        raise RowFault(f"item {ids.index(low) + 1} of {name!r} is {low}: ids are 0 or more")
    mask = _mask(row, name, ids)
    start, end = _without_padding(row, name, len(ids))
    if not any(mask[start:end]):
        raise RowFault(f"no token of {name!r} is supervised: its mask is 0 everywhere")
    return Tokenized(ids[start:end], mask[start:end])


def _mask(row: Mapping[str, Any], name: str, ids: list[int]) -> list[int]:
    masks: dict[str, list[int]] = {}
    for column in _MASKS:
        if row.get(column) is not None:
            masks[column] = _binary(row, column, name, len(ids))
    if row.get(_LABELS) is not None:
        labels = _of_length(row, _LABELS, name, len(ids))
        for number, (label, id) in enumerate(zip(labels, ids, strict=True), start=1):
            if label not in (_IGNORED, id):
                raise RowFault(
                    f"item {number} of {_LABELS!r} is {label}, neither {_IGNORED} nor the id {id} in its place"
                )
        masks[_LABELS] = [int(label != _IGNORED) for label in labels]
    if not masks:
        return [1] * len(ids)
    (first, mask), *others = masks.items()
    for other, another in others:
        if another != mask:
            at = next(n for n, (a, b) in enumerate(zip(mask, another, strict=True), start=1) if a != b)
            raise RowFault(f"{first!r} and {other!r} differ at item {at}")
    return mask


def _without_padding(row: Mapping[str, Any], name: str, length: int) -> tuple[int, int]:
    """Where the ids that are attended to begin and end."""
    if row.get(_ATTENTION) is None:
        return 0, length
    attended = _binary(row, _ATTENTION, name, length)
    if 1 not in attended:
        raise RowFault(f"{_ATTENTION!r} is 0 everywhere")
    start, end = attended.index(1), length - attended[::-1].index(1)
    if 0 in attended[start:end]:
        raise RowFault(f"item {attended.index(0, start) + 1} of {_ATTENTION!r} is 0 between ids that are attended to")
    return start, end


def _binary(row: Mapping[str, Any], column: str, name: str, length: int) -> list[int]:
    values = _of_length(row, column, name, length)
    if wrong := next((n for n, value in enumerate(values, start=1) if value not in (0, 1)), None):
        raise RowFault(f"item {wrong} of {column!r} is {values[wrong - 1]}, not 0 or 1")
    return values


def _of_length(row: Mapping[str, Any], column: str, name: str, length: int) -> list[int]:
    values = _numbers(row, column)
    if len(values) != length:
        raise RowFault(f"{column!r} has {len(values)} items, {name!r} has {length}")
    return values


def _numbers(row: Mapping[str, Any], column: str) -> list[int]:
    values = row.get(column)
    if not isinstance(values, list):
        raise RowFault(
            f"column {column!r} is {json_text.kind(values)}, not an array" if column in row else f"no column {column!r}"
        )
    for number, value in enumerate(values, start=1):
        if type(value) is bool and column != _COLUMN:
            continue
        if type(value) is not int:
            what = f"{value}" if isinstance(value, float) else json_text.kind(value)
            raise RowFault(f"item {number} of {column!r} is {what}, not a whole number")
    return list(map(int, values))
