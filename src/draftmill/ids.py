"""Generated ids as they came from a server: read and written as text and checked as numbers, with no object an id.

A thousand ids are compared in a few microseconds as the bytes of an array, and in ten to thirty as a list; and the text
that a server sent is the text that the journal keeps.
"""

import contextlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, overload

import msgspec

_PLAIN = (
    b"0123456789,"  # of a list of ids without white space or signs: what else stands there is left to a real parser
)
_MOST = 1 << 32


class Ids(Sequence[int]):
    """A sequence of ids: ``packed``, and ``text``, the JSON that they were read from, where there is any."""

    __slots__ = ("packed", "text")

    def __init__(self, packed: "array[int]", text: bytes | None = None) -> None:
        self.packed = packed
        self.text = text

    def __len__(self) -> int:
        return len(self.packed)

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
        import numpy as np  # for runs only: it would double the time that `draftmill --help` takes

        with contextlib.suppress(ValueError):  # no JSON, says the parser below
            numbers = np.fromstring(inner, np.uint64, sep=",")  # larger ones come out as the largest
            if np.maximum.reduce(numbers) < _MOST:
                return Ids(array("I", numbers.astype(np.uint32).tobytes()), raw)
    return msgspec.json.decode(raw, type=list[int])


def packed(ids: Sequence[int]) -> "array[int] | None":
    """The ids as unsigned numbers of one width; None where one is negative, or larger than any vocabulary."""
    if isinstance(ids, Ids):
        return ids.packed
    try:
        return array("I", ids)
    except OverflowError:
        return None


def largest(ids: "array[int]") -> int:
    """The largest of ids that are there."""
    import numpy as np

    return int(np.maximum.reduce(np.frombuffer(ids, np.uint32)))  # `max` of an array goes through Python first


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
