from pathlib import Path

import pytest

from draftmill.mill.load import answers_told

ENGINE = b'{"time":1.0,"engine":"e","state":"open","in_flight":2,"cap":4,"load":null}\n'


def done(**answers: int) -> bytes:
    told = ",".join(f'"{n}":{{"answers":{a},"failed":0,"tokens":9,"growing":0,"left":5}}' for n, a in answers.items())
    return b'{"time":1.0,"done":{%s}}\n' % told.encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, 0),
        (b"", 0),
        (ENGINE * 3, 0),
        (done(a=3) + ENGINE, 3),
        (done(a=3) + ENGINE + done(a=7, b=1) + ENGINE * 2, 7),
        (done(a=3) + done(b=1), 0),  # the last start was of another dataset
        (done(a=3) + b'{"time":2.0,"done":{"a":{"answ', 3),  # torn
        (done(a=3) + b"\xff\n[]\n", 3),
        (done(a=1) + ENGINE * 9000 + done(a=5), 5),
    ],
)
def test_what_the_last_start_told_of_is_at_the_files_end(tmp_path: Path, content: bytes | None, told: int) -> None:
    path = tmp_path / "load.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert answers_told(path, "a") == told
