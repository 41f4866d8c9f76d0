"""The state of a run as a table: each with its verdict and what it advises."""

import pytest

from draftmill.mill.loop import Ending
from draftmill.watch.diagnosis import diagnose
from draftmill.watch.figures import Disk, Phase
from draftmill.watch.finding import Level, Verdict
from draftmill.watch.state import state
from tests.watch.situations import BUSY, NOW, Situation, dataset, engine, holds, reason, run

SITUATIONS: dict[str, Situation] = {
    "paused": (
        run(engine(**BUSY), phase=Phase.PAUSED),
        Verdict.PAUSED,
        Level.WARN,
        "nothing new is sent, 61 requests in flight go on",
        "draftmill control runs/k --resume",
    ),
    "gone": (
        run(engine(**BUSY), phase=Phase.GONE, seen=NOW - 900),
        Verdict.GONE,
        Level.BAD,
        "no sign of life for 15m00s",
        "goes on where it stopped",
    ),
    "interrupted": (
        run(phase=Phase.ENDED, ending="interrupted"),
        Verdict.ENDED,
        Level.WARN,
        "ended (interrupted): 5,000 prompts still owed",
        "goes on where it stopped",
    ),
    "a quickstart that was interrupted": (
        run(phase=Phase.ENDED, ending="interrupted", again="`draftmill quickstart --out runs/k`"),
        Verdict.ENDED,
        Level.WARN,
        "5,000 prompts still owed",
        "run `draftmill quickstart --out runs/k` again: it goes on where it stopped",
    ),
    "gone, and its settings with it": (
        run(phase=Phase.GONE, again=None),
        Verdict.GONE,
        Level.BAD,
        "gone",
        "restore runs/k/run.yaml",
    ),
    "interrupted, and its answers are gone": (
        run(phase=Phase.ENDED, ending="interrupted", data=dataset(lost=True)),
        Verdict.ENDED,
        Level.WARN,
        "still owed",
        "restore runs/k/B1/raw_responses.jsonl",
    ),
    "all done": (
        run(phase=Phase.ENDED, ending="done", data=dataset(owed=0)),
        Verdict.ENDED,
        Level.GOOD,
        "every prompt is settled",
        "draftmill export runs/k",
    ),
    "done with too many errors, one of three": (
        run(phase=Phase.ENDED, data=dataset(owed=0, rows=2, counting=2, errors=1, error_reasons=reason())),
        Verdict.ENDED,
        Level.WARN,
        "not complete: every prompt is settled, but 33.3% of B1's prompts became errors (1), allowed are 5.0%",
        "`--retry-errors` tries them again",
    ),
    "done, and no room for the rows": (
        run(phase=Phase.ENDED, data=dataset(owed=0, written=None), held=False),
        Verdict.ENDED,
        Level.WARN,
        "but of B1, 500 rows should be written, and tokenized_data.jsonl is not there",
        "run the same `draftmill run` command again: it writes them from the journal, if the disk has room",
    ),
    "done, and the rows are those of another budget": (
        run(phase=Phase.ENDED, data=dataset(owed=0, written=40)),
        Verdict.ENDED,
        Level.WARN,
        "but of B1, 500 rows should be written, and tokenized_data.jsonl has 40",
        "draftmill run",
    ),
    "done, and an answer was edited after its row was built": (
        run(phase=Phase.ENDED, data=dataset(owed=0, written=None, altered=("j:2: was changed", "restore that line"))),
        Verdict.ENDED,
        Level.WARN,
        "not complete: every prompt is settled, but j:2: was changed",
        "restore that line",
    ),
    "done, and the rows are being written": (
        run(phase=Phase.ENDED, data=dataset(owed=0, written=None), held=True),
        Verdict.ENDED,
        Level.INFO,
        "its rows are being written",
        "",
    ),
    "done, with lines that belong nowhere": (
        run(phase=Phase.ENDED, data=dataset(owed=0, strays=2, older_shape=1)),
        Verdict.ENDED,
        Level.WARN,
        "of B1, 1 line of its files cannot be read and 2 lines of its journal belong to no prompt that lacks one",
        "it names each file and line",
    ),
    "done, and nothing came of it": (
        run(phase=Phase.ENDED, data=dataset(owed=0, rows=0, answers=0)),
        Verdict.ENDED,
        Level.WARN,
        "every prompt is settled, and not one of them has a row",
        "errors.jsonl",
    ),
    "a run without any prompt": (
        run(phase=Phase.ENDED, data=dataset(owed=0, rows=0, answers=0, prompts=0)),
        Verdict.ENDED,
        Level.WARN,
        "ended: it has no prompts",
        "unread.jsonl",
    ),
    "some other folder": (
        run(phase=Phase.FILES, datasets=[]),
        Verdict.ENDED,
        Level.INFO,
        "no run of this version, and no dataset",
        "",
    ),
    "a start that said why it came to nothing": (
        run(phase=Phase.NEW, died="x.jsonl: no such file", data=dataset(answers=0, written=None)),
        Verdict.STARTING,
        Level.WARN,
        "not started: the last start ended before it generated anything: x.jsonl: no such file",
        "run the same `draftmill run` command again: it goes on once that is mended",
    ),
    "the same of a part that was adopted": (
        run(phase=Phase.NEW, died="x.jsonl: no such file"),
        Verdict.STARTING,
        Level.WARN,
        "anything: x.jsonl: no such file; 500 answers already there, 5,000 prompts owed",
        "once that is mended",
    ),
    "the same on a full disk, before there were settings": (
        run(phase=Phase.FILES, died="x.jsonl: no such file", datasets=[], disk=Disk(free=5_000_000)),
        Verdict.STARTING,
        Level.WARN,
        "before it had prepared anything: x.jsonl: no such file; only 0.0 GB of the disk are free",
        "once that is mended",
    ),
    "the same of a run that was interrupted before": (
        run(phase=Phase.ENDED, ending="interrupted", died="runs/k: another model"),
        Verdict.ENDED,
        Level.WARN,
        "ended (interrupted): 5,000 prompts still owed; the last start ended before it generated anything: runs/k: an",
        "once that is mended",
    ),
    "the same of a run that was killed before, whose prompts are gone": (
        run(phase=Phase.ENDED, died="runs/k: another model", data=dataset(owed=None)),
        Verdict.ENDED,
        Level.WARN,
        "ended; the last start ended before it generated anything: runs/k: another model",
        "once that is mended",
    ),
    "the same of a run that owes nothing": (
        run(phase=Phase.ENDED, ending="done", died="runs/k: another model", data=dataset(owed=0)),
        Verdict.ENDED,
        Level.GOOD,
        "every prompt is settled",
        "draftmill export runs/k",
    ),
    "adopted in part": (
        run(phase=Phase.NEW),
        Verdict.STARTING,
        Level.INFO,
        "not started: 500 answers already there, 5,000 prompts owed",
        "",
    ),
    "all that a limit let through": (
        run(phase=Phase.ENDED, ending=Ending.DONE.value, command="draftmill run r.yaml --limit=500"),
        Verdict.ENDED,
        Level.WARN,
        "ended: every prompt that it was to answer is settled, 5,000 prompts of all still owed",
        "run it without `--limit`: it goes on where it stopped",
    ),
    "all that datasets of it let through": (
        run(phase=Phase.ENDED, ending=Ending.DONE.value, command="draftmill run r.yaml --only a --limit 5"),
        Verdict.ENDED,
        Level.WARN,
        "5,000 prompts of all still owed",
        "run it without `--limit` and `--only`",
    ),
    "owed again since": (
        run(phase=Phase.ENDED, ending=Ending.DONE.value, command="draftmill run r.yaml"),
        Verdict.ENDED,
        Level.WARN,
        "5,000 prompts of all still owed",
        "run the same `draftmill run` command again: they are answered then",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation(name: str) -> None:
    figures = SITUATIONS[name][0]
    (found,) = state(figures)
    holds(SITUATIONS[name], found)
    assert diagnose(figures)[0] == found, "nothing else is more pressing there"


def test_a_run_that_is_on_has_no_state_to_tell() -> None:
    assert not list(state(run(engine(**BUSY))))


def test_a_control_file_that_cannot_be_followed_is_told_beside_it() -> None:
    told = [f.message for f in state(run(phase=Phase.PAUSED, control_fault="lanes: is not a lane"))]
    assert len(told) == 2 and told[1] == "the control file cannot be followed: lanes: is not a lane"


def test_errors_are_a_share_of_what_was_sent() -> None:
    """Rows that are passed through do not hide them, as `run` does not count them."""
    data = dataset(owed=0, rows=100, counting=5, passed_through=95, errors=1, error_reasons=reason())
    assert "16.7% of B1's prompts became errors" in next(state(run(phase=Phase.ENDED, data=data))).message
