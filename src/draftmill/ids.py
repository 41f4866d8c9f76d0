"""Generated ids as they came from a server: read and written as text and checked as numbers, with no object an id.

A thousand ids are compared in a few microseconds as the bytes of an array, and in ten to thirty as a list; and the text
that a server sent is the text that the journal keeps.
"""

import contextlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import msgspec

T = TypeVar("T")

_PLAIN = b"0123456789,"  # of a list of ids without white space or signs: all else is left to a real parser
_MOST = 1 << 32
_SHAPE = bytes(ord("0" if at in b"0123456789" else "," if at in b"," else "x") for at in range(256))
_LARGE = b"0" * 10  # so many digits may be too large a number


class Ids(Sequence[int]):
    """A sequence of ids: ``packed``; and where they were read from JSON its ``text``, and the ``largest`` of them.

    Of ids that were not looked at so far only the ``text`` and how many they are (``length``) is known.
    """

    __slots__ = ("_length", "_packed", "largest", "text")

    def __init__(
        self, packed: "array[int] | None", text: bytes | None = None, largest: int | None = None, length: int = 0
    ) -> None:
        self._packed = packed
        self._length = length
        self.text = text
        self.largest = largest

    @property
    def packed(self) -> "array[int]":
        if self._packed is None:
            assert self.text is not None
            self._packed, self.largest = _parsed(self.text)
        return self._packed

    def __len__(self) -> int:
        return self._length if self._packed is None else len(self._packed)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        return self.packed[at].tolist() if isinstance(at, slice) else self.packed[at]

    def __iter__(self) -> Iterator[int]:
        return iter(self.packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(other) == self.packed.tolist()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ids({self.packed.tolist()})"


def read(raw: bytes) -> Sequence[int]:
    """The ids of a JSON list. Raises msgspec.DecodeError for anything but a list of whole numbers."""
    inner = raw[1:-1]
    if raw[:1] == b"[" and inner and not inner.translate(None, _PLAIN):
        with contextlib.suppress(ValueError):  # no JSON, says the parser below; or larger numbers
            packed, most = _parsed(raw)
            return Ids(packed, raw, most)
    return msgspec.json.decode(raw, type=list[int])


def unread(raw: bytes) -> Sequence[int]:
    """The ids of a JSON list that is known to be one, which are parsed only when somebody looks at them: to send them
    and to write them down again takes their text."""
    shape = raw[1:-1].translate(_SHAPE)
    if raw[:1] == b"[" and shape and b"x" not in shape and _LARGE not in shape:
        return Ids(None, raw, length=shape.count(b",") + 1)
    return read(raw)


def _parsed(raw: bytes) -> "tuple[array[int], int]":
    """The ids of a list without white space or signs, and the largest. Raises ValueError where they are not such."""
    import numpy as np  # for runs only: it would double the time that `draftmill --help` takes

    numbers = np.fromstring(raw[1:-1], np.uint64, sep=",")  # larger ones come out as the largest
    if (most := int(np.maximum.reduce(numbers))) >= _MOST:
        raise ValueError(f"{most} is no id")
    return array("I", numbers.astype(np.uint32).tobytes()), most


GONE = msgspec.Raw(b"0")  # stands where a list was cut out


class Apart(Generic[T]):
    """A decoder of JSON with one long list of ids, under ``key``. The list is cut out and never decoded: passing over a
    thousand ids takes a parser longer than all the rest of a reply."""

    def __init__(self, type: type[T], key: str) -> None:
        self._decode = msgspec.json.Decoder(type).decode
        # No string holds it, since there a backslash stands before every quote. Another object may hold such a key:
        # so whoever decodes looks whether it is its own list that is GONE.
        self._key = b'"%s":[' % key.encode()

    def decode(self, said: bytes) -> tuple[T, bytes]:
        """The value, and the text of the list that was cut out; empty where none was. Raises what msgspec raises."""
        found = said.find(self._key)
        begin = found + len(self._key) - 1
        end = said.find(b"]", begin) + 1
        if found >= 0 and end:
            with contextlib.suppress(msgspec.DecodeError):  # then the fault is named as it stands in the whole
                return self._decode(said[:begin] + b"0" + said[end:]), said[begin:end]
        return self._decode(said), b""


def text_of(raw: msgspec.Raw, apart: bytes) -> bytes:
    """The text of a list as it was decoded, where it may have been cut out."""
    return apart if apart and raw == GONE else bytes(raw)


def are_ids(numbers: Sequence[int]) -> bool:
    """Whether none of them is negative, or larger than any vocabulary."""
    return isinstance(numbers, Ids) or packed(numbers) is not None


def packed(ids: Sequence[int]) -> "array[int] | None":
    """The ids as unsigned numbers of one width; None where one is negative, or larger than any vocabulary."""
    if isinstance(ids, Ids):
        return ids.packed
    try:
        return array("I", ids)
    except OverflowError:
        return None


def largest(ids: Sequence[int], packed: "array[int]") -> int:
    """The largest of ids that are there, and of the same ``packed``."""
    if isinstance(ids, Ids) and ids.largest is not None:
        return ids.largest
    import numpy as np

    return int(np.maximum.reduce(np.frombuffer(packed, np.uint32)))  # `max` of an array goes through Python first


def first(ids: "array[int]", token: int) -> int:
    """Where an id stands first; behind the last one where it does not."""
    import numpy as np

    there = np.frombuffer(ids, np.uint32) == token
    at = int(there.argmax()) if len(ids) else 0
    return at if len(ids) and there[at] else len(ids)


def _as_json(value: Any) -> Any:
    """What msgspec encodes for an object that it does not know: ids as the text that they came as."""
    if isinstance(value, Ids):
        return value.packed.tolist() if value.text is None else msgspec.Raw(value.text)
    raise NotImplementedError(f"{type(value).__name__} is no JSON")


encode = msgspec.json.Encoder(enc_hook=_as_json).encode
