import os
import subprocess
import sys
from pathlib import Path

import pytest

from draftmill.errors import LockedError
from draftmill.journal.lock import locked

HOLD = """
import pathlib, sys
from draftmill.journal.lock import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_is_told_who_holds_it_and_a_killed_holder_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout and holder.stdout.readline() == "held\n"
    with (
        pytest.raises(LockedError, match=f"process {holder.pid} on .* holds this run since 20") as caught,
        locked(path),
    ):
        pass
    assert str(tmp_path) in str(caught.value)
    holder.kill()
    holder.wait()
    with locked(path):
        assert str(os.getpid()) in path.read_text()
    with locked(path):
        pass
