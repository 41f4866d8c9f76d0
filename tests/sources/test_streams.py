import gzip
from pathlib import Path

import pytest
import zstandard

from draftmill.sources.streams import BrokenStream, open_stream

TEXT = b"".join(b"line %d of a file\n" % n for n in range(20_000))


def _gz(data: bytes) -> bytes:
    return gzip.compress(data)


def _zst(data: bytes) -> bytes:
    return zstandard.compress(data)


BOTH = pytest.mark.parametrize(("ending", "pack"), [("gz", _gz), ("zst", _zst)])


def _read(path: Path) -> bytes:
    with open_stream(path) as stream:
        return stream.read()


def test_plain(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(TEXT)
    assert _read(tmp_path / "a.jsonl") == TEXT


@BOTH
def test_members_one_after_the_other(tmp_path: Path, ending: str, pack) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(pack(TEXT[:1000]) + pack(b"") + pack(TEXT[1000:]))
    assert _read(path) == TEXT


def test_gzip_padding_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(_gz(TEXT) + b"\0" * 512)
    assert _read(tmp_path / "a.gz") == TEXT


def test_long_zstd_window(tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=28)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    (tmp_path / "a.zst").write_bytes(compressor.compress(TEXT) + compressor.flush())
    assert _read(tmp_path / "a.zst") == TEXT


@BOTH
@pytest.mark.parametrize("share", [0.0001, 0.3, 0.9, 0.9999])
def test_a_cut_is_noticed_after_all_that_is_whole(tmp_path: Path, ending: str, pack, share: float) -> None:
    packed = pack(TEXT)
    path = tmp_path / f"a.{ending}"
    path.write_bytes(packed[: max(1, int(len(packed) * share))])
    lines = []
    with open_stream(path) as stream, pytest.raises(BrokenStream, match="ends early"):
        while line := stream.readline():
            lines.append(line)
    assert TEXT.startswith(b"".join(lines))
    assert share < 0.5 or lines


@BOTH
def test_garbage_after_the_end(tmp_path: Path, ending: str, pack) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(pack(b"whole\n") + b"garbage garbage garbage")
    with open_stream(path) as stream:
        assert stream.readline() == b"whole\n"
        with pytest.raises(BrokenStream, match="damaged"):
            stream.readline()


@BOTH
def test_not_compressed_at_all(tmp_path: Path, ending: str, pack) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(TEXT)
    with pytest.raises(BrokenStream, match="damaged"):
        _read(path)


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"")
    assert _read(tmp_path / "a.gz") == b""
