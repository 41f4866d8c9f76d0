"""Files that are replaced whole."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from draftmill.errors import StorageError
from draftmill.journal.files import replacing


def test_a_disk_that_is_read_only_is_told_of_the_file_and_not_of_its_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with (
        pytest.raises(StorageError, match=f"^{tmp_path}/a.json: cannot be written: Read-only"),
        replacing(tmp_path / "a.json") as temporary,
    ):
        temporary.write_bytes(b"1")
