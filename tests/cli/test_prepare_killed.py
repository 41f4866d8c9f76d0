"""``draftmill prepare`` on a source that takes a while: killed, interrupted, on a disk that is full."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import command, draftmill, environment, with_file_limit, write_jsonl, write_recipe
from tests.render.tiny import directory

ROWS = 8_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    directory(folder / "model")
    rows = [{"messages": [{"role": "user", "content": f"{n} " + "hi there 123 " * 40}]} for n in range(ROWS)]
    write_jsonl(folder / "chat.jsonl", rows)
    write_recipe(
        folder / "recipe.yaml",
        model=str(folder / "model"),
        engines=["http://127.0.0.1:9"],
        datasets=[{"name": "chat", "source": "chat.jsonl", "duplicates": "exact"}],
    )
    done = draftmill("prepare", folder / "recipe.yaml", "--out", folder / "whole", "--cores", "1")
    assert done.returncode == 0, done.stderr
    return folder


def started(place: Path, out: Path) -> "subprocess.Popen[str]":
    args = command("prepare", place / "recipe.yaml", "--out", out, "--cores", "3")
    return subprocess.Popen(
        args, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    )


def processes(group: int) -> Iterator[int]:
    """The processes of a session that are not zombies."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == group and fields[0] != "Z":
            yield int(stat.parent.name)


def wait_until(holds: Any, seconds: float = 200) -> bool:
    until = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < until:
        time.sleep(0.02)
    return bool(found)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def workers(process: "subprocess.Popen[str]") -> list[int]:
    return [pid for pid in processes(process.pid) if pid != process.pid]


def same(place: Path, out: Path) -> bool:
    files = ("prompts.jsonl", "unread.jsonl", "prepared.json")
    return all((out / "chat" / name).read_bytes() == (place / "whole" / "chat" / name).read_bytes() for name in files)


def test_kills_at_any_time_cost_what_was_under_way_and_nothing_else(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    spool, prompts = out / "chat" / ".prepare" / "spool", out / "chat" / ".prepare" / "prompts"
    reached = []
    for file, bytes_ in [(spool, 1), (spool, 1_500_000), (prompts, 1), (prompts, 8_000_000)]:
        process = started(place, out)
        assert wait_until(
            lambda file=file, bytes_=bytes_, process=process: size(file) > bytes_ or process.poll() is not None
        )
        process.kill()
        process.communicate()
        reached.append((size(spool), size(prompts)))
        assert wait_until(lambda process=process: not list(processes(process.pid))), "a worker outlives its parent"
    assert sorted(reached) == reached
    done = draftmill("prepare", place / "recipe.yaml", "--out", out, "--cores", "3")
    assert done.returncode == 0, done.stderr
    assert same(place, out) and not (out / "chat" / ".prepare").exists()


def test_ctrl_c_ends_all_processes_with_one_line(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = started(place, out)
    assert wait_until(lambda: size(out / "chat" / ".prepare" / "spool") > 1_500_000 and workers(process))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process
    _, told = process.communicate(timeout=200)
    assert process.returncode == 130 and "Traceback" not in told, told
    assert "interrupted; the same command goes on" in told
    assert wait_until(lambda: not list(processes(process.pid)), 20), (
        "a worker outlives its parent"
    )  # its pipe ends first
    assert draftmill("prepare", place / "recipe.yaml", "--out", out).returncode == 0 and same(place, out)


def test_a_worker_that_is_killed_is_one_clear_error(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = started(place, out)

    def victims() -> list[int]:
        """Workers that have begun to work, not the tracker that multiprocessing starts beside them."""
        named = [(pid, Path(f"/proc/{pid}/cmdline").read_bytes()) for pid in workers(process)]
        return [pid for pid, line in named if b"spawn_main" in line]

    assert wait_until(lambda: size(out / "chat" / ".prepare" / "spool") > 1_500_000 and victims())
    os.kill(victims()[0], signal.SIGKILL)
    _, told = process.communicate(timeout=200)
    assert process.returncode == 1 and "Traceback" not in told, told
    assert "a worker process of the preparation died" in told and "--cores 1" in told
    assert wait_until(lambda: not list(processes(process.pid)))
    assert draftmill("prepare", place / "recipe.yaml", "--out", out).returncode == 0 and same(place, out)


@pytest.mark.parametrize("limit", [200_000, 3_000_000, 9_000_000])
def test_a_full_disk_is_told_and_what_is_done_is_kept(place: Path, tmp_path: Path, limit: int) -> None:
    """The spool, then the prompts, do not fit."""
    out = tmp_path / "run"
    args = with_file_limit(command("prepare", place / "recipe.yaml", "--out", out, "--cores", "1"), limit)
    failed = subprocess.run(args, capture_output=True, text=True, env=environment(), timeout=300, check=False)
    assert failed.returncode == 1 and "Traceback" not in failed.stderr, failed.stderr
    assert "cannot be written: File too large" in failed.stderr
    assert not (out / "chat" / "prompts.jsonl").exists()
    done = draftmill("prepare", place / "recipe.yaml", "--out", out)
    assert done.returncode == 0, done.stderr
    assert same(place, out)


def test_a_source_that_changed_is_told_at_later_starts_and_the_run_goes_on(place: Path, tmp_path: Path) -> None:
    out, base = tmp_path / "run", tmp_path / "base"
    base.mkdir()
    shutil.copy(place / "recipe.yaml", base)
    rows = (place / "chat.jsonl").read_text().splitlines(keepends=True)
    (base / "chat.jsonl").write_text("".join(rows[:50]))
    assert draftmill("prepare", base / "recipe.yaml", "--out", out).returncode == 0
    before = (out / "chat" / "prompts.jsonl").read_bytes()
    (base / "chat.jsonl").write_text("".join(rows[:60]))
    again = draftmill("prepare", base / "recipe.yaml", "--out", out, "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["chat"]["read"] == 50
    assert f"{base}/chat.jsonl changed since its prompts were made: the run goes on" in again.stderr
    assert (out / "chat" / "prompts.jsonl").read_bytes() == before
    (base / "chat.jsonl").unlink()
    gone = draftmill("prepare", base / "recipe.yaml", "--out", out)
    assert gone.returncode == 0 and "changed since" not in gone.stderr
