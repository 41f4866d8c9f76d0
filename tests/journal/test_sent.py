from pathlib import Path

import pytest

from draftmill.journal.sent import SentMark


def test_the_mark_is_what_the_next_start_finds(tmp_path: Path) -> None:
    mark = SentMark(tmp_path / "sent")
    assert mark.before == 0 and not mark.known
    for position in (0, 4, 2):
        mark.reach(position)
    mark.write()
    assert SentMark(tmp_path / "sent").before == 5  # although nobody closed it
    mark.close()
    again = SentMark(tmp_path / "sent")
    assert again.known
    again.reach(3)
    again.write()
    assert SentMark(tmp_path / "sent").before == 5


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_mark_that_is_none_is_no_mark(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sent").write_bytes(content)
    mark = SentMark(tmp_path / "sent")
    assert mark.before == 0 and not mark.known


def test_a_disk_that_takes_no_mark_stops_nothing(tmp_path: Path) -> None:
    mark = SentMark(tmp_path / "gone" / "sent")
    mark.reach(1)
    mark.write()
    mark.close()
