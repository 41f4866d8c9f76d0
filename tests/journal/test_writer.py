from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.errors import StorageError
from draftmill.journal.writer import Appender
from tests.journal.disk import ForgetfulDisk

PATH = Path("/run/b1/raw_responses.jsonl")


def lines(count: int, start: int = 0) -> list[bytes]:
    return [b'{"id":"%d","text":"%s"}' % (i, b"x" * (i % 7)) for i in range(start, start + count)]


def text(group: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in group)


def test_a_synced_group_survives_any_crash() -> None:
    disk = ForgetfulDisk()
    Appender(PATH, disk).append(lines(3))
    disk.crash()
    assert bytes(disk.live[PATH]) == text(lines(3))


def test_a_new_file_survives_by_name() -> None:
    disk = ForgetfulDisk()
    Appender(PATH, disk)
    disk.crash()
    assert PATH in disk.live


@pytest.mark.parametrize("fill", [b"", b"\0", b"\n"])
def test_a_crash_in_a_write_is_repaired_at_every_byte(fill: bytes) -> None:
    group = text(lines(3, 2))
    for torn_at in range(len(group) + 1):
        disk = ForgetfulDisk()
        Appender(PATH, disk).append(lines(2))
        disk.live[PATH] += group  # written, never synced
        disk.crash(keep=torn_at, fill=fill)
        after = Appender(PATH, disk)
        whole = [line for n, line in enumerate(lines(3, 2)) if torn_at >= len(text(lines(n + 1, 2))) - 1]
        # a line that lacks only its newline is whole; zeros behind it make it torn
        if fill == b"\0" and torn_at < len(group):
            whole = [line for n, line in enumerate(lines(3, 2)) if torn_at >= len(text(lines(n + 1, 2)))]
        assert bytes(disk.live[PATH]) == text(lines(2) + whole), torn_at
        after.append(lines(1, 9))
        assert bytes(disk.live[PATH]) == text(lines(2) + whole + lines(1, 9)), torn_at


def test_no_space_at_every_byte_leaves_only_what_was_durable() -> None:
    group = lines(3, 2)
    for room in range(len(text(group))):
        disk = ForgetfulDisk()
        journal = Appender(PATH, disk)
        journal.append(lines(2))
        disk.fail_write_after = room
        with pytest.raises(StorageError, match="No space left") as caught:
            journal.append(group)
        assert "free some space" in caught.value.advice
        assert bytes(disk.live[PATH]) == text(lines(2)), room
        disk.fail_write_after = None
        journal.append(group)  # space is back: the same appender goes on
        assert bytes(disk.live[PATH]) == text(lines(2) + group), room


def test_a_failed_sync_promises_nothing_and_closes_the_appender() -> None:
    disk = ForgetfulDisk()
    journal = Appender(PATH, disk)
    journal.append(lines(2))
    disk.fail_fsync = True
    with pytest.raises(StorageError, match="cannot be synced: Input/output error"):
        journal.append(lines(1, 2))
    with pytest.raises(StorageError, match="in doubt"):
        journal.append(lines(1, 2))
    disk.crash(keep=1000)
    assert bytes(disk.live[PATH]) == text(lines(2))


def test_lines_of_another_program_without_a_last_newline_are_kept() -> None:
    disk = ForgetfulDisk()
    disk.live[PATH] = bytearray(b'{"id":"a"}\n{"id":"b"}')
    assert Appender(PATH, disk).repaired == 0
    assert bytes(disk.live[PATH]) == b'{"id":"a"}\n{"id":"b"}\n'


def test_a_bad_line_in_the_middle_is_never_cut() -> None:
    disk = ForgetfulDisk()
    disk.live[PATH] = bytearray(b'{"id":"a"}\n\0\0\0\n{"id":"b"}\n{"id"')
    assert Appender(PATH, disk).repaired == 5
    assert bytes(disk.live[PATH]) == b'{"id":"a"}\n\0\0\0\n{"id":"b"}\n'


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["sync", "crash", "full", "eio"]), st.integers(0, 60))))
def test_every_synced_line_stands_once_and_in_order(steps: list[tuple[int, str, int]]) -> None:
    """Whatever happens, the file holds the synced groups and beside them only whole lines that were once appended."""
    disk = ForgetfulDisk()
    journal = Appender(PATH, disk)
    promised: list[bytes] = []
    number = 0
    for count, event, byte in steps:
        group = lines(count, number)
        number += count
        if event == "full":
            disk.fail_write_after = byte
        if event == "eio":
            disk.fail_fsync = True
        try:
            if event == "crash":
                disk.live[PATH] += text(group)
                disk.crash(keep=byte)
            else:
                journal.append(group)
                promised += group
        except StorageError:
            disk.crash(keep=byte)
        disk.fail_write_after, disk.fail_fsync = None, False
        if event != "sync":
            journal = Appender(PATH, disk)
    stand = bytes(disk.live[PATH]).split(b"\n")[:-1]
    assert [line for line in stand if line in promised] == promised
    assert set(stand) <= set(lines(number))
    assert len(stand) == len(set(stand))


def test_on_a_real_file_a_full_disk_is_one_clear_error() -> None:
    with pytest.raises(StorageError, match=r"/dev/full: cannot be .*"):
        Appender(Path("/dev/full")).append(lines(1))
