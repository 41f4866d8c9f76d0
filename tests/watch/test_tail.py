"""Following files that are appended to, in whatever pieces the appends come."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from draftmill.watch.tail import Tail

LINES = [b'{"a": 1}\n', b'{"b": "\xc3\xa9"}\n', b"no json at all\n", b"\n", b'{"c": [1, 2]}\n']


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(LINES), max_size=8), st.lists(st.integers(0, 80), max_size=8))
def test_every_line_once_however_it_was_written(lines: list[bytes], cuts: list[int]) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "f"
        tail, data = Tail(path), b"".join(lines)
        seen: list[tuple[int, int, bytes]] = []
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
            with path.open("ab") as file:
                file.write(data[start:end])
            seen += tail.lines()
        wanted = [line for line in lines if line.strip()]
        assert [line.strip() for _, _, line in seen] == [line.strip() for line in wanted]
        assert [number for number, _, _ in seen] == list(range(1, len(wanted) + 1))
        for _, offset, line in seen:
            assert data[offset : offset + len(line)] == line


def test_a_torn_line_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b'{"a": 1}\n{"b": ')
    tail = Tail(path)
    assert len(list(tail.lines())) == 1 and tail.torn
    path.write_bytes(b'{"a": 1}\n{"b": 2}')
    assert [line for _, _, line in tail.lines()] == [b'{"b": 2}'] and not tail.torn
    path.write_bytes(b'{"a": 1}\n{"b": 2}\n{"c": 3}\n')
    assert [(n, line) for n, _, line in tail.lines()] == [(3, b'{"c": 3}\n')]


def test_a_file_that_is_gone_or_shorter_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "f"
    tail = Tail(path)
    assert list(tail.lines()) == [] and not tail.replaced
    path.write_bytes(b'{"a": 1}\n')
    assert len(list(tail.lines())) == 1
    path.write_bytes(b"{}\n")
    assert list(tail.lines()) == [] and tail.replaced
    other = Tail(path)
    list(other.lines())
    path.unlink()
    assert list(other.lines()) == [] and other.replaced
