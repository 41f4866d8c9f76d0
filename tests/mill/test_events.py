"""What a start tells of its end in the run's events."""

from pathlib import Path

import pytest

from draftmill.errors import RunError, SourceError, StorageError
from draftmill.ledger.told import EARLY
from draftmill.mill.events import Events
from tests.cli.command import read_jsonl


def ends(path: Path, error: BaseException, *, kinds: tuple[str, ...] = (), nothing_to_do: bool = False) -> list[str]:
    """The messages of the events that tell of an end, of a start that this error gets out of."""
    with pytest.raises(type(error)) as raised, Events(path) as events:
        for kind in kinds:
            events.tell(kind, "run", "…")
        if nothing_to_do:
            events.came_to_something()
        raise error
    assert raised.value is error
    return [line["message"] for line in read_jsonl(path) if line["kind"] == "ended"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RunError("x: was begun with another model", "put it back"), "x: was begun with another model"),
        (
            SourceError("2 of 3 datasets cannot be read", faults=["a: no such file\n    advice", "b: is empty"]),
            "2 of 3 datasets cannot be read; a: no such file; b: is empty",
        ),
        (StorageError("a name \udcff\nof any bytes"), "a name ? of any bytes"),
    ],
)
def test_what_ends_a_start_before_it_generates_is_told_in_one_line(tmp_path: Path, error: Exception, told: str) -> None:
    assert ends(tmp_path / "events.jsonl", error, kinds=("start", "prepared")) == [EARLY + told]


def test_a_fault_of_our_own_is_told_with_its_kind_and_place(tmp_path: Path) -> None:
    (told,) = ends(tmp_path / "events.jsonl", KeyError("a bug"))
    assert told.startswith(f"{EARLY}KeyError: 'a bug' (test_events.py:")


def test_an_error_behind_the_beginning_and_an_interrupt_end_no_start_there(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert ends(path, RunError("x"), kinds=("milling",)) == []
    assert ends(path, BrokenPipeError(), nothing_to_do=True) == []
    assert ends(path, KeyboardInterrupt()) == []
    with Events(path):
        pass
    assert {line["kind"] for line in read_jsonl(path)} == {"milling"}


def test_an_error_is_seen_where_its_event_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with pytest.raises(RunError, match="the error itself"), Events(path) as events:
        events.tell("start", "run", "begun")
        events._file.close()  # what is written to it from here on fails, and so does its own close
        raise RunError("the error itself")
    assert [line["kind"] for line in read_jsonl(path)] == ["start"]
