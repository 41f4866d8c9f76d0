"""A file made part by part: what is whole is found again, whatever a kill or a power cut left behind it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.mill.parts import Parts

PARTS = [(b"first", b"1"), (b"", b"nothing"), (b"x" * 3000, b""), (b"last", b"4")]


def write(path: Path, key: bytes = b"key", parts: list[tuple[bytes, bytes]] = PARTS) -> None:
    with Parts(path, key) as file:
        assert list(file.found()) == []
        for data, note in parts:
            file.add(data, note)


def test_all_is_found_again_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write(path)
    with Parts(path, b"key") as file:
        assert list(file.found()) == [note for _, note in PARTS]
        file.add(b"more", b"5")
        assert file.size == path.stat().st_size
        file.place(tmp_path / "placed")
    assert (tmp_path / "placed").read_bytes() == b"".join(data for data, _ in PARTS) + b"more"
    assert [p.name for p in tmp_path.iterdir()] == ["placed"]


def test_what_was_made_for_another_key_is_of_no_use(tmp_path: Path) -> None:
    write(tmp_path / "f")
    write(tmp_path / "f", b"other")
    with Parts(tmp_path / "f", b"other") as file:
        assert len(list(file.found())) == len(PARTS)


def test_zeros_that_a_power_cut_left_are_no_parts(tmp_path: Path) -> None:
    write(tmp_path / "f")
    log = (tmp_path / "f.log").read_bytes()
    (tmp_path / "f.log").write_bytes(log[:30] + bytes(len(log) - 30))
    with Parts(tmp_path / "f", b"key") as file:
        assert list(file.found()) == []


@given(st.data())
def test_whatever_is_torn_or_damaged_only_whole_parts_are_believed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("parts") / "f"
    write(path)
    for name in ("f", "f.log"):
        file = path.with_name(name)
        content = bytearray(file.read_bytes())
        kind = data.draw(st.sampled_from(["whole", "cut", "zeros", "flipped", "gone"]))
        at = data.draw(st.integers(0, len(content) - 1))
        if kind == "gone":
            file.unlink()
            continue
        if kind == "cut":
            del content[at:]
        elif kind == "zeros":
            content[at:] = bytes(len(content) - at)
        elif kind == "flipped":
            content[at] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
    with Parts(path, b"key") as parts:
        found = list(parts.found())
        assert found == [note for _, note in PARTS][: len(found)]
        for piece, note in PARTS[len(found) :]:
            parts.add(piece, note)
    assert path.read_bytes() == b"".join(piece for piece, _ in PARTS)
    with Parts(path, b"key") as parts:
        assert len(list(parts.found())) == len(PARTS)
