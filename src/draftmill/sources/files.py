"""Local files: one, or those that a glob names, as one stream of rows.

``.jsonl`` (``.ndjson``), ``.json``, ``.traj`` (one row a file) and ``.parquet``; the JSON ones also as ``.gz`` and
``.zst``. All but ``.json`` and ``.traj`` documents are streamed.
"""

import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftmill.errors import SourceError
from draftmill.sources import document, lines, parquet
from draftmill.sources.lines import Reading
from draftmill.sources.streams import COMPRESSED, open_stream

Raw = tuple[str, int, bytes | dict[str, Any] | str]  # file, line, and the row, decoded or not; or why there is none

_READERS: dict[str, Callable[[Path], Iterator[Reading]]] = {
    ".jsonl": lines.read,
    ".ndjson": lines.read,
    ".json": document.read,
    ".traj": document.read_one,
    ".parquet": parquet.read,
}
ENDINGS = ".jsonl, .ndjson, .json, .traj (each also with .gz or .zst after it) or .parquet"


@dataclass(frozen=True)
class LocalFiles:
    """The files of one dataset, in the order in which they are read."""

    paths: tuple[Path, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.paths))

    def readings(self) -> Iterator[Reading]:
        """Every row of every file, or the reason why it is none. Raises SourceError if a file cannot be read."""
        for path in self.paths:
            try:
                yield from _reader(path)(path)
            except OSError as error:
                raise _unreadable(path, error) from None

    def raw(self) -> Iterator[Raw]:
        """The same, with the lines of JSON-lines files left for others to decode."""
        for path in self.paths:
            name = str(path)
            try:
                if _reader(path) is lines.read:
                    with open_stream(path) as stream:
                        yield from ((name, number, line) for number, line in lines.numbered(stream))
                else:
                    yield from ((where.file, where.line, row) for where, row in _reader(path)(path))
            except OSError as error:
                raise _unreadable(path, error) from None

    def fingerprint(self) -> dict[str, str]:
        """Size and time of change of each file: cheap, and different once a file was written to."""
        stats = {}
        for path in self.paths:
            try:
                stat = path.stat()
            except OSError as error:
                raise _unreadable(path, error) from None
            stats[str(path)] = f"{stat.st_size} bytes, mtime {stat.st_mtime_ns}"
        return stats


def open_files(source: str, base: Path) -> LocalFiles:
    """The files that ``source`` names: a path or a glob, relative to ``base``. Raises SourceError if one is no use."""
    pattern = os.path.expanduser(source)  # noqa: PTH111 - a Path would lose a glob's trailing parts
    path = base / pattern
    if path.is_dir():
        raise SourceError(f"{path}: is a folder", f"name its files, for example {source.rstrip('/')}/*.jsonl")
    if path.exists() or not glob.has_magic(pattern):
        paths = [path]
    else:
        found = sorted(glob.glob(pattern, root_dir=base, recursive=True))  # noqa: PTH207 - pattern may be absolute
        paths = [file for name in found if (file := base / name).is_file()]
        if not paths:
            raise SourceError(f"{path}: no file fits this pattern", "a relative pattern starts at the recipe's folder")
    for file in paths:
        _reader(file)
        if file.exists() and not file.is_file():
            raise SourceError(
                f"{file}: is no file but a pipe or device, which can be read only once", "copy it to a file"
            )
        try:
            file.open("rb").close()
        except OSError as error:
            raise _unreadable(file, error) from None
    return LocalFiles(tuple(paths))


def _reader(path: Path) -> Callable[[Path], Iterator[Reading]]:
    endings = [suffix.lower() for suffix in path.suffixes]
    packed = bool(endings) and endings[-1] in COMPRESSED
    ending = endings[-2] if packed and len(endings) > 1 else endings[-1] if endings else ""
    reader = _READERS.get(ending)
    if reader is None or (packed and ending == ".parquet"):
        what = "".join(endings[-2:]) if packed else ending
        raise SourceError(f"{path}: files that end with {what!r} are not read", f"it would have to be {ENDINGS}")
    return reader


def _unreadable(path: Path, error: OSError) -> SourceError:
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{path}: no such file", "a relative path starts at the recipe's folder")
    if isinstance(error, PermissionError):
        return SourceError(f"{path}: permission denied", "make it readable for the user who runs draftmill")
    return SourceError(f"{path}: cannot be read: {error.strerror or error}")
