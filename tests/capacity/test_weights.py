"""Sizes out of what safetensors files say of themselves."""

import json
import struct

import pytest

from draftmill.capacity import disk, weights


def test_an_index_says_its_total() -> None:
    assert weights.of_index({"metadata": {"total_size": 595_148_192_736}, "weight_map": {}}) == 595_148_192_736
    for index in ({}, {"metadata": {"total_size": "much"}}, {"metadata": None}):
        with pytest.raises(ValueError, match="total_size"):
            weights.of_index(index)


def test_a_header_lists_its_tensors() -> None:
    tensors = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [576, 49152], "data_offsets": [0, 0]},
        "b": {"dtype": "F8_E4M3", "shape": [7, 3], "data_offsets": [0, 0]},
        "c": {"dtype": "I32", "shape": [], "data_offsets": [0, 0]},
        "d": {"dtype": "F4", "shape": [3], "data_offsets": [0, 0]},
    }
    header = json.dumps(tensors).encode()
    assert weights.header_length(struct.pack("<Q", len(header)) + header) == len(header)
    assert weights.of_header(header) == 576 * 49152 * 2 + 21 + 4 + 2


@pytest.mark.parametrize("head", [b"", b"{}", b"PK\x03\x04\x14\x00\x08\x00", b"\xff" * 16])
def test_what_is_no_safetensors_file(head: bytes) -> None:
    with pytest.raises(ValueError, match="no safetensors"):
        weights.header_length(head)


@pytest.mark.parametrize("header", [b"[]", b"{", b'{"a": {}}', b'{"a": {"dtype": "X", "shape": [1]}}'])
def test_a_torn_header(header: bytes) -> None:
    with pytest.raises(ValueError, match="no safetensors header"):
        weights.of_header(header)


def test_weights_are_divided_over_the_gpus() -> None:
    assert weights.per_gpu(800, tp=4, pp=2) == 100


def test_hidden_states_of_the_facts() -> None:
    assert disk.hidden_states(1, 4096) == 32 * 1024
    assert disk.hidden_states(100_000_000, 4096) == pytest.approx(3.3e12, rel=0.01)


def test_a_journal_is_about_as_large_as_the_ids_it_holds() -> None:
    ids = list(range(100_000, 101_000))
    line = len(json.dumps(ids, separators=(",", ":")))
    assert disk.journal(0, 1000, 163_840, checkpoints=False) == pytest.approx(line, rel=0.2)
    assert disk.journal(0, 1000, 163_840) == 2 * disk.journal(0, 1000, 163_840, checkpoints=False)
    assert disk.rows(1, 1000, 500, 163_840) > disk.journal(1, 1000, 163_840, checkpoints=False)
    assert disk.prompts(1, 500, 163_840) > 0
