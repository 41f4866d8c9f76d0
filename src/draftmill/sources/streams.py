"""Files as streams of bytes: plain, gzip or zstd, told apart by their ending."""

import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

COMPRESSED = {".gz": "gzip", ".zst": "zstd"}

_CHUNK = 1 << 14  # compressed bytes at a time: bounds what a chunk can unfold to, and what damage in it can hide
_BUFFER = 1 << 20
_ZSTD_WINDOW = 1 << 31  # files written with `zstd --long=31` need it


class BrokenStream(Exception):
    """A compressed file that is cut short or damaged.

    Everything before a cut has been delivered; before damage (a flipped bit), all but the chunk that holds it.
    """


def open_stream(path: Path) -> BinaryIO:
    """The uncompressed bytes of a file. Reading raises BrokenStream where a compressed file is damaged."""
    method = COMPRESSED.get(path.suffix.lower())
    if method is None:
        return path.open("rb", buffering=_BUFFER)
    return io.BufferedReader(_Unpacked(path, method), _BUFFER)


class _Unpacked(io.RawIOBase):
    """Decompresses member after member (gzip) or frame after frame (zstd), and notices a missing end.

    The stream readers of the two libraries are not used: zstandard's reports a truncated file as a normal end.
    """

    def __init__(self, path: Path, method: str) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._method = method
        self._fresh, self._faults = _unpacker(method)
        self._unpacker = self._fresh()
        self._inside = False
        self._pending = memoryview(b"")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self._pending:
            packed = self._file.read(_CHUNK)
            if not packed:
                if self._inside:
                    raise BrokenStream(f"the {self._method} stream ends early: the file is cut short")
                return 0
            self._pending = memoryview(self._unpack(packed))
        count = min(len(buffer), len(self._pending))
        buffer[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def _unpack(self, packed: bytes) -> bytes:
        parts = []
        while packed:
            if not self._inside and self._method == "gzip":
                packed = packed.lstrip(b"\0")  # gzip allows padding between and after members
                if not packed:
                    break
            self._inside = True
            try:
                parts.append(self._unpacker.decompress(packed))
            except self._faults as error:
                if any(parts):
                    self._file.seek(-len(packed), io.SEEK_CUR)  # deliver what is whole; the next read meets the fault
                    self._unpacker, self._inside = self._fresh(), False
                    break
                raise BrokenStream(f"the {self._method} stream is damaged: {error}") from None
            packed = b""
            if self._unpacker.eof:
                packed = self._unpacker.unused_data
                self._unpacker, self._inside = self._fresh(), False
        return b"".join(parts)


def _unpacker(method: str) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
    if method == "gzip":
        return (lambda: zlib.decompressobj(wbits=31)), (zlib.error, gzip.BadGzipFile)
    import zstandard

    context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    return context.decompressobj, (zstandard.ZstdError,)
