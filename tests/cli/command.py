"""The command as a user runs it: a process of its own."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from draftmill.cli.app import main

KEY = "DRAFTMILL_TEST_KEY"


def command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "draftmill", *map(str, args)]


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"NO_COLOR": "1", "COLUMNS": "200"} | more


def draftmill(*args: str | Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*args), capture_output=True, text=True, env=environment(**env), timeout=300, check=False
    )


def with_file_limit(args: list[str], size: int) -> list[str]:
    """The same command where no file may grow beyond so many bytes: the one full disk that needs no root."""
    limited = (
        "import resource, signal, runpy, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_module('draftmill', run_name='__main__')\n"
    )
    return [args[0], "-c", limited, *args[2:]]


def in_process(*args: str | Path) -> "subprocess.CompletedProcess[str]":
    """The same in this process, which has loaded already what takes a second: for tests that need many commands."""
    out, told, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["draftmill", *map(str, args)]
    code: Any = 0
    try:
        with redirect_stdout(out), redirect_stderr(told):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    return subprocess.CompletedProcess(args, code or 0, out.getvalue(), told.getvalue())


def write_jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_jsonl(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def questions(count: int) -> list[dict[str, Any]]:
    things = ["tea", "a glacier", "the number 7", "rust", "a violin", "fog", "chess", "bread", "a comet", "moss"]
    return [
        {"messages": [{"role": "user", "content": f"In one line ({n}): what is {things[n % len(things)]}?"}]}
        for n in range(count)
    ]


def write_recipe(path: Path, **recipe: Any) -> Path:
    path.write_text(json.dumps(recipe))  # JSON is YAML
    return path
