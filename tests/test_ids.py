"""Ids as text and as numbers."""

import re
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill import ids
from draftmill.ids import GONE, Apart, encode

Reader = Callable[[bytes], Sequence[int]]
ANY = st.lists(st.integers(0, 2**32 - 1))
SOME = ANY.filter(bool)


@pytest.mark.parametrize("reader", [ids.read, ids.unread])
@given(ANY)
def test_are_read_as_they_stand_and_written_as_they_came(reader: Reader, numbers: list[int]) -> None:
    for text in (msgspec.json.encode(numbers), str(numbers).encode()):
        read = reader(text)
        assert len(read) == len(numbers) and msgspec.json.decode(encode({"ids": read})) == {"ids": numbers}
        assert list(read) == numbers and len(read) == len(numbers) and ids.are_ids(read)


def test_what_nobody_looks_at_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_parsed", pytest.fail)
    read = ids.unread(b"[5,999999999]")
    assert len(read) == 2 and ids.are_ids(read) and encode(read) == b"[5,999999999]"


@pytest.mark.parametrize("reader", [ids.read, ids.unread])
@given(SOME, st.data())
def test_are_sequences_like_lists(reader: Reader, numbers: list[int], data: st.DataObject) -> None:
    read = reader(msgspec.json.encode(numbers))
    at = data.draw(st.integers(-len(numbers), len(numbers) - 1))
    assert read[at] == numbers[at] and read[at:] == numbers[at:] and read == numbers and read != numbers[1:]


@given(SOME, st.integers(0, 2**32 - 1))
def test_largest_and_first(numbers: list[int], token: int) -> None:
    packed = ids.packed(numbers)
    assert packed is not None
    for read in (numbers, ids.read(msgspec.json.encode(numbers)), ids.unread(msgspec.json.encode(numbers))):
        assert ids.largest(read, packed) == max(numbers)
    assert ids.first(packed, numbers[-1]) == numbers.index(numbers[-1])
    assert ids.first(packed, token) == ([*numbers, token].index(token))


def test_nothing_stands_in_no_ids() -> None:
    assert ids.first(ids.packed([]), 2) == 0  # type: ignore[arg-type]
    assert len(ids.read(b"[]")) == 0


@pytest.mark.parametrize("text", [b"null", b'"12"', b"[1.5]", b"[1e3]", b'["1"]', b"[[1]]", b"[1,null]", b"{}"])
def test_what_is_no_list_of_whole_numbers_is_refused(text: bytes) -> None:
    for reader in (ids.read, ids.unread):
        with pytest.raises(msgspec.ValidationError):
            reader(text)


@pytest.mark.parametrize("numbers", [[-1], [1, 2**32], [1, 2**64], [10**30], [0, -(2**40), 5]])
def test_numbers_that_are_no_ids_are_read_and_do_not_pack(numbers: list[int]) -> None:
    for reader in (ids.read, ids.unread):
        read = reader(str(numbers).replace(" ", "").encode())
        assert list(read) == numbers
        assert ids.packed(read) is None and not ids.are_ids(read)


class Reply(msgspec.Struct):
    ids: msgspec.Raw = msgspec.Raw(b"[]")
    text: str = ""
    other: object = None


REPLY = Apart(Reply, "ids")


@given(ANY, st.text(), st.sampled_from(["text", "other"]))
def test_a_list_is_cut_out_wherever_it_stands(numbers: list[int], text: str, before: str) -> None:
    said = msgspec.json.encode({before: text, "ids": numbers, "meta": [1]})
    reply, apart = REPLY.decode(said)
    assert reply.ids == GONE and list(ids.read(apart)) == numbers
    assert getattr(reply, before) == text


@pytest.mark.parametrize(
    "said",
    [
        b'{"ids": [1,2]}',  # with white space: left where it is
        b'{"text":"a \\"ids\\":[9] b","ids":[1,2]}',  # named in a string
        b'{"other":{"ids":[9,9]},"ids":[1,2]}',  # another object's
        b'{"other":{"ids":[[9],[9]]},"ids":[1,2]}',
    ],
)
def test_only_its_own_list_is_taken_for_it(said: bytes) -> None:
    reply, apart = REPLY.decode(said)
    assert list(ids.read(ids.text_of(reply.ids, apart))) == [1, 2]


def test_no_list_is_none() -> None:
    assert REPLY.decode(b"{}") == (Reply(), b"")


@pytest.mark.parametrize(
    "said", [b'{"ids":[1,2', b'{"ids":[1,[2]]', b"", b'{"ids":[1],"text":3}', b'{"text":"\xff","ids":[1]}']
)
def test_what_is_no_reply_is_refused_as_a_whole(said: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)) as found:
        REPLY.decode(said)
    with pytest.raises(type(found.value), match=re.escape(str(found.value))):
        msgspec.json.decode(said, type=Reply)
