"""The disk that the chaos is played on: it must lose what a real one may lose, and never what was synced."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.errors import StorageError
from draftmill.journal.writer import Appender
from tests.journal.power import PoweredDisk, tear

LINES = [b'{"id":%d}' % n for n in range(4)]
TEXT = b"".join(line + b"\n" for line in LINES)


def begun(path: Path, seed: int = 0) -> tuple[PoweredDisk, Appender]:
    """A disk with a file of which two lines are synced."""
    disk = PoweredDisk(random.Random(seed))
    file = Appender(path / "a", disk)
    file.append(LINES[:2])
    return disk, file


@given(st.integers(0, 500), st.integers(1, 3), st.booleans())
def test_a_death_in_the_middle_of_an_append_keeps_what_was_synced(
    tmp_path_factory: pytest.TempPathFactory, seed: int, operation: int, cuts_power: bool
) -> None:
    path = tmp_path_factory.mktemp("disk")
    disk, file = begun(path, seed)
    disk.die_at, disk.cuts_power = disk.operations + operation, cuts_power
    file.append(LINES[2:3])
    file.append(LINES[3:])
    assert disk.dead
    disk.restore()
    left = (path / "a").read_bytes()
    assert left.startswith(TEXT[: len(LINES[0]) * 2 + 2])
    assert TEXT.startswith(left.rstrip(b"\0"))
    Appender(path / "a", disk).close()
    assert TEXT.startswith((path / "a").read_bytes())


def test_what_was_not_synced_may_be_lost_torn_or_zeros(tmp_path: Path) -> None:
    lefts = set()
    for seed in range(200):
        path = tmp_path / str(seed)
        path.mkdir()
        disk, file = begun(path, seed)
        disk.die_at = disk.operations + 2  # the sync
        file.append(LINES[2:])
        disk.restore()
        lefts.add((path / "a").read_bytes())
    assert {TEXT, TEXT[:-1], TEXT[: len(TEXT) // 2]} <= lefts
    assert any(left.endswith(b"\0") for left in lefts) and len(lefts) > 15


def test_nothing_is_written_after_a_death(tmp_path: Path) -> None:
    died: list[bool] = []
    disk, file = begun(tmp_path)
    disk.on_death = lambda: died.append(True)
    disk.die(cuts_power=False)
    file.append(LINES[2:])
    disk.restore()
    assert died == [True] and (tmp_path / "a").read_bytes() == b"".join(line + b"\n" for line in LINES[:2])


def test_a_truncation_that_no_sync_made_certain_may_come_undone(tmp_path: Path) -> None:
    lefts = set()
    for seed in range(40):
        path = tmp_path / str(seed)
        path.mkdir()
        (path / "a").write_bytes(TEXT + b'{"torn')
        disk = PoweredDisk(random.Random(seed))
        disk.die_at = 2  # the first is the truncation, the second the sync behind it
        Appender(path / "a", disk)
        disk.restore()
        lefts.add((path / "a").read_bytes())
    assert lefts == {TEXT, TEXT + b'{"torn'}


@pytest.mark.parametrize("fault", [{"full_after": 5}, {"fail_sync": 1}, {"fail_sync": 1, "fail_truncate": True}])
def test_faults_that_are_told(tmp_path: Path, fault: dict[str, int]) -> None:
    disk, file = begun(tmp_path)
    vars(disk).update(fault)
    with pytest.raises(StorageError):
        file.append(LINES[2:])
    file.close()
    disk.calm()
    Appender(tmp_path / "a", disk).append(LINES[2:])
    assert (tmp_path / "a").read_bytes().startswith(TEXT)
    assert bytes(disk.promised()[tmp_path / "a"]) == (tmp_path / "a").read_bytes()


def test_a_tear_by_hand_takes_one_line_at_most(tmp_path: Path) -> None:
    done = set()
    for seed in range(60):
        path = tmp_path / str(seed)
        path.write_bytes(TEXT)
        done.add(tear(path, random.Random(seed)))
        left = path.read_bytes()
        assert left != TEXT and left.startswith(TEXT[: -len(LINES[3]) - 1])
    assert done == {"cut line", "garbage"} and tear(tmp_path / "none", random.Random(0)) == ""
