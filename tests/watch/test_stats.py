"""The figures of a run out of its files: in progress, finished, of other versions, torn, and on another machine."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from draftmill import examples
from draftmill import recipe as recipes
from draftmill.errors import UsageFault
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.journal.index import entries
from draftmill.ledger.control import steer
from draftmill.ledger.rows import refresh_rows
from draftmill.ledger.settings import read_settings, write_settings
from draftmill.ledger.standing import load_standing
from draftmill.ledger.told import EARLY, PAUSED
from draftmill.records import Finish
from draftmill.watch.completions import Completions
from draftmill.watch.diagnosis import diagnose
from draftmill.watch.figures import DatasetFigures, Phase
from draftmill.watch.finding import Level, Verdict
from draftmill.watch.overview import head
from draftmill.watch.stats import RunWatch
from tests.render import families as fixtures
from tests.watch.folders import NOW, append, begin, completion, done, event, failure, load, write_prompts

OPENAI = {
    "id": "chatcmpl-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 40, "total_tokens": 51},
}
RAW = {"prompt_tokens": 12, "completion_tokens": 60, "finish_reason": {"type": "length", "length": 60}, "text": "x"}
NATIVE = {"text": "x", "output_ids": [1, 2], "meta_info": {"prompt_tokens": 3, "completion_tokens": 2, "id": "a"}}


def watch(folder: RunFolder | Path, now: float = NOW) -> RunWatch:
    return RunWatch(folder if isinstance(folder, Path) else folder.path, now=lambda: now)


def only(figures: object) -> DatasetFigures:
    (dataset,) = figures.datasets  # type: ignore[attr-defined]
    return dataset  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("line", "prompt_tokens", "generated", "finish"),
    [
        (OPENAI, 11, 40, "stop"),
        ({"id": 7, "response": OPENAI}, 11, 40, "stop"),
        (RAW, 12, 60, "length"),
        (NATIVE, 3, 2, "unknown"),
        ({"usage": OPENAI["usage"], "choices": [{"text": "Hi.", "finish_reason": "length"}]}, 11, 40, "length"),
    ],
)
def test_lines_of_older_shapes(
    line: dict[str, object], prompt_tokens: int, generated: int, finish: str, tmp_path: Path
) -> None:
    append(tmp_path / "B1" / "raw_responses.jsonl", line)
    figures = watch(tmp_path).refresh()
    dataset = only(figures)
    assert (dataset.prompt_tokens, dataset.generated, dataset.finishes) == (prompt_tokens, generated, {finish: 1})
    assert (dataset.answers, dataset.older_shape, dataset.unread) == (1, 1, [])
    assert figures.phase is Phase.FILES and figures.total.generated == generated


def test_a_legacy_folder_with_everything_in_it(tmp_path: Path) -> None:
    """Old and new shapes, unknown lines and a torn one, other prompts: counts for both, never zero."""
    journal = tmp_path / "B1" / "raw_responses.jsonl"
    append(journal, OPENAI, RAW, completion(0, 25), {"tokens": 5}, b"what is this\n", OPENAI)
    append(tmp_path / "B1" / "prompts.jsonl", *({"messages": [], "n": n} for n in range(9)))
    append(journal, b'{"choices": [{"mess')
    watched = watch(tmp_path)
    dataset = only(watched.refresh())
    assert dataset.generated == 40 + 60 + 25 + 40
    assert (dataset.answers, dataset.older_shape, dataset.torn) == (4, 3, True)
    assert (dataset.prompts, dataset.owed, dataset.counting) == (9, 5, None)
    journal_unread = next(u for u in dataset.unread if "raw_responses" in u.file)
    assert (journal_unread.lines, journal_unread.first) == (2, 4)
    assert any("prompts.jsonl" in u.file for u in dataset.unread)
    append(journal, b'age": {"content": "a"}}], "usage": {"completion_tokens": 7}}\n')
    dataset = only(watched.refresh())
    assert (dataset.generated, dataset.torn) == (172, False)


def test_a_run_of_this_version_with_older_lines_in_it(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 6, "budget": 30})
    files = folder.dataset("d")
    append(
        files.journal, completion(0, 20), OPENAI, {"x": 1}, completion(1, 20), completion(3, 5, finish_reason="length")
    )
    append(files.errors, failure(2))
    for index in (False, True):
        if index:
            list(entries(files.journal, files.journal_index, worth=1))
        dataset = only(watch(folder).refresh())
        tally = load_standing(files, budget=30).tally()
        assert (dataset.counting, dataset.surplus, dataset.errors, dataset.owed) == (2, 1, 1, 0)
        assert (tally.counting, tally.surplus, tally.error, tally.owed) == (2, 1, 1, 0)
        assert (dataset.rows, dataset.counted, dataset.older_shape) == (2, 40, 1)
        assert (dataset.generated, dataset.answers) == (20 + 20 + 5 + 40, 4)
        assert dataset.finishes == {"stop": 3, "length": 1} and dataset.truncated == 0.25
        assert [(u.lines, u.first) for u in dataset.unread] == [(1, 3)]


def test_a_damaged_line_of_this_version_is_no_answer_of_an_older_one(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    append(
        folder.dataset("d").journal, completion(0, 5, completion_tokens=6), completion(1, 2, output_ids=[1, 999_999])
    )
    dataset = only(watch(folder).refresh())
    assert (dataset.generated, dataset.answers, dataset.older_shape, dataset.owed) == (0, 0, 0, 10)
    assert [(u.lines, u.first, u.reason) for u in dataset.unread] == [(2, 1, "holds 5 ids and says 6")]


def test_a_run_in_progress(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 100}, {"name": "e", "prompts": 5, "budget": 40})
    append(folder.events, event(NOW - 40, "milling"), event(NOW - 39, "cap", "http://e", "8 at once: to begin with"))
    for step in range(5):
        at = NOW - 40 + 10 * step
        append(folder.load, done(at, d=(step, 0, 100 * step, 50), e=(0, 0, 0, 0)))
        append(folder.load, load(at, running=4 + step, queued=step, kv_used=50, kv_total=100, generation_rate=30.0))
    append(folder.dataset("d").journal, completion(0, 5), completion(1, 7, partial=True, finish_reason=Finish.ABORT))
    watched = watch(folder)
    figures = watched.refresh()
    assert figures.phase is Phase.RUNNING and figures.started == NOW - 40
    d, e = figures.datasets
    assert (d.owed, d.growing, d.growing_answers, e.owed) == (99, 7, 1, 5)
    assert (d.rates.last_10s, d.rates.start) == (10.0, 10.0) and d.rates.last_5min == 10.0
    assert (d.lane, d.limit, d.budget, e.budget) == ("short", 4096, None, 40)
    (engine,) = figures.engines
    assert (engine.running, engine.queued, engine.kv_use, engine.rate) == (8, 4, 0.5, 30.0)
    assert engine.cap_why == "8 at once: to begin with" and figures.server_rate == 30.0
    assert figures.total.eta is None, "in the first minute nobody knows"
    assert [(p.tokens["d"], p.running) for p in watched.loads.timeline.points] == [
        (50, 4),
        (150, 5),
        (250, 6),
        (350, 7),
    ]
    append(folder.dataset("d").journal, completion(1, 9))
    assert watched.refresh().datasets[0].generated == 14
    append(folder.events, event(NOW, "control", "run", PAUSED))
    assert watched.refresh().phase is Phase.PAUSED
    append(folder.events, event(NOW, "ended", "run", "interrupted"))
    assert (watched.refresh().phase, watched.refresh().ending) == (Phase.ENDED, "interrupted")


def test_a_second_start_counts_on(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    append(folder.load, done(NOW - 100, d=(0, 0, 0, 0)), done(NOW - 90, d=(9, 0, 900, 0)))
    append(folder.load, done(NOW - 50, d=(0, 0, 0, 0)), done(NOW - 40, d=(2, 0, 200, 0)), load(NOW - 40))
    append(folder.load, done(NOW - 30, d=(4, 0, 400, 0)))
    append(folder.dataset("d").journal, completion(0, 1300))
    watched = watch(folder, NOW - 30)
    rates = only(watched.refresh()).rates
    assert rates.start == 20.0 and rates.run == pytest.approx(1300 / 30)
    assert watched.loads.timeline.points[-1].tokens == {"d": 1100}


def test_silence_is_told_apart_from_an_end(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    append(folder.events, event(NOW - 500, "milling"))
    append(folder.load, load(NOW - 500))
    assert watch(folder, NOW - 490).refresh().phase is Phase.RUNNING
    assert watch(folder).refresh().phase is Phase.GONE
    holder = {"pid": os.getpid(), "host": os.uname().nodename, "since": "", "command": ""}
    folder.lock.write_text(json.dumps(holder))
    assert watch(folder).refresh().phase is Phase.RUNNING
    folder.lock.write_text(json.dumps(holder | {"pid": 2**22 + 1}))
    assert watch(folder, NOW - 490).refresh().phase is Phase.GONE


def test_a_start_that_died_before_it_generated_anything_is_told(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"}, {"name": "e"})
    append(folder.events, event(NOW - 500, "start"))
    holder = {"pid": 2**22 + 1, "host": os.uname().nodename, "since": "", "command": "draftmill prepare r.yaml"}
    folder.lock.write_text(json.dumps(holder))
    assert diagnose(watch(folder).refresh())[0].level is Level.INFO
    folder.lock.write_text(json.dumps(holder | {"command": "draftmill run r.yaml --out x"}))
    first = diagnose(watch(folder).refresh())[0]
    assert first.level is Level.WARN and first.advice.endswith("again: it says what stops it")
    assert first.message.startswith("not started: the last start ended before it generated anything")
    bare = RunFolder(tmp_path / "bare")  # the disk was full before its settings were written
    bare.create()
    bare.lock.write_bytes(folder.lock.read_bytes())
    first = diagnose(watch(bare).refresh())[0]
    assert "ended before it had prepared anything" in first.message and first.advice.startswith("run the same")
    append(folder.dataset("d").journal, completion(0))
    settle(folder, "d")
    assert "1 answer already there" in diagnose(watch(folder).refresh())[0].message, "adopted, and rows made of it"
    assert diagnose(watch(folder).refresh())[0].level is Level.INFO


def test_a_start_that_said_why_it_came_to_nothing(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    since = datetime.fromtimestamp(NOW - 400, UTC).isoformat(timespec="seconds")
    holder = {"pid": 2**22 + 1, "host": os.uname().nodename, "since": since, "command": "draftmill run r.yaml"}
    folder.lock.write_text(json.dumps(holder))
    died = event(NOW - 300, "ended", "run", EARLY + "x.jsonl: no such file")
    append(folder.events, event(NOW - 399, "start"), died)
    figures = watch(folder).refresh()
    assert (figures.phase, figures.died, figures.ending) == (Phase.NEW, "x.jsonl: no such file", "")
    later = datetime.fromtimestamp(NOW - 200, UTC).isoformat(timespec="seconds")
    folder.lock.write_text(json.dumps(holder | {"since": later}))
    assert watch(folder).refresh().died == "", "another one began since, and said nothing"
    append(folder.events, event(NOW - 199, "milling"), event(NOW - 190, "ended", "run", "interrupted"))
    assert watch(folder).refresh().died == ""
    append(
        folder.events,
        event(NOW - 100, "absent", "http://b", "does not answer"),
        event(NOW - 99, "ended", "run", EARLY + "another"),
    )
    figures = watch(folder).refresh()
    assert (figures.phase, figures.died, figures.ending) == (Phase.ENDED, "another", "interrupted")
    append(folder.events, event(NOW - 50, "recipe"))
    assert watch(folder).refresh().died == ""


def test_a_run_that_owes_nothing_has_ended_though_its_events_are_gone(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 2})
    append(folder.dataset("d").journal, completion(0, 8), completion(1, 8))
    append(folder.load, done(NOW - 900, d=(2, 0, 16, 0)), load(NOW - 900))
    assert watch(folder).refresh().phase is Phase.ENDED


def test_what_was_only_prepared_is_not_gone(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    append(folder.events, event(NOW - 500, "start"), event(NOW - 400, "prepared", "d"))
    assert watch(folder, NOW - 390).refresh().phase is Phase.PREPARING
    assert watch(folder).refresh().phase is Phase.NEW
    append(folder.events, event(NOW - 300, "milling"), event(NOW - 200, "ended"), event(NOW - 100, "recipe"))
    assert watch(folder).refresh().phase is Phase.ENDED


def test_nothing_is_written(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 4000})
    append(folder.dataset("d").journal, *(completion(n, 200) for n in range(1000)))
    before = {p: p.stat().st_mtime_ns for p in sorted(tmp_path.rglob("*"))}
    watch(folder).refresh()
    assert {p: p.stat().st_mtime_ns for p in sorted(tmp_path.rglob("*"))} == before


def test_files_that_are_replaced_are_read_again(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    files = folder.dataset("d")
    append(files.journal, completion(0, 5), completion(1, 6), completion(2, 7))
    append(files.errors, failure(3))
    watched = watch(folder)
    assert only(watched.refresh()).generated == 18
    files.journal.write_bytes(files.journal.read_bytes().splitlines(keepends=True)[0])  # a failed write was cut back
    dataset = only(watched.refresh())
    assert (dataset.generated, dataset.answers, dataset.errors) == (5, 1, 1)
    write_prompts(files, 20)
    assert only(watched.refresh()).prompts == 20


def test_budget_and_pause_of_the_control_file(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "budget": 10})
    append(folder.dataset("d").journal, completion(0, 8), completion(1, 8), completion(2, 8))
    watched = watch(folder)
    assert only(watched.refresh()).counting == 2
    folder.control.write_text("budgets: {d: 20}\n")
    assert (only(watched.refresh()).counting, only(watched.refresh()).budget) == (3, 20)
    append(folder.events, event(NOW - 9, "milling"), event(NOW - 5, "ended", "run", "interrupted"))
    assert only(watched.refresh()).budget == 10, "what the next start will follow is none of what has ended"
    folder.control.write_text("budgets: {x: 20}\n")
    assert "no dataset" in watched.refresh().control_fault


def test_errors_by_reason(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    files = folder.dataset("d")
    append(files.errors, failure(0, "9,000 tokens, the engine takes 4096"), failure(1, "8 tokens, the engine takes 4"))
    append(files.errors, failure(2, "refused"), b"{}\n")
    dataset = only(watch(folder).refresh())
    assert [(r.count, r.reason) for r in dataset.error_reasons] == [
        (2, "N tokens, the engine takes N"),
        (1, "refused"),
    ]
    assert dataset.error_reasons[0].where == "d.jsonl:2" and dataset.errors == 3
    assert [(u.file, u.lines) for u in dataset.unread] == [("d/errors.jsonl", 1)]


def test_thinking_by_marker_ids(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    folder.tokenizer.mkdir()
    added = [{"id": 50, "content": "<think>"}, {"id": 51, "content": "</think>"}, {"id": 52, "content": "<|im_end|>"}]
    (folder.tokenizer / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "model": {}}))
    files = folder.dataset("d")
    append(files.journal, completion(0, 4, output_ids=[50, 9, 51, 8]), completion(1, 4, output_ids=[9, 9, 9, 9]))
    append(files.journal, completion(2, 2, output_ids=[50, 9]))
    thinking = only(watch(folder).refresh()).thinking
    assert thinking and (thinking.answers, thinking.share, thinking.unclosed) == (3, 0.5, 1)
    list(entries(files.journal, files.journal_index, worth=1))
    assert only(watch(folder).refresh()).thinking == thinking


def test_thinking_on_the_channels_of_gpt_oss(tmp_path: Path) -> None:
    model = fixtures.plain_model("gpt-oss")
    folder = begin(tmp_path, {"name": "d"})
    settings = read_settings(folder)
    assert settings
    write_settings(folder, msgspec.structs.replace(settings, vocab_size=model.tokenizer.size))
    model.tokenizer.save(folder.tokenizer)
    thought = "<|channel|>analysis<|message|>So it is.<|end|>"
    rest = "<|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    call = "<|channel|>commentary to=functions.f<|message|>{}<|call|>"
    texts = [thought + rest, call, "<|channel|>analysis<|message|>It may be"]
    answers = model.tokenizer.encode(texts)
    lines = [completion(n, len(ids), output_ids=ids) for n, ids in enumerate(answers)]
    append(folder.dataset("d").journal, *lines)
    thinking = only(watch(folder).refresh()).thinking
    thinks = len(model.tokenizer.encode([thought])[0]) + len(answers[2])
    assert thinking and (thinking.answers, thinking.unclosed) == (3, 1)
    assert thinking.share == pytest.approx(thinks / sum(map(len, answers)))


def test_an_engine_that_is_away_and_one_that_left(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"}, engines=["http://e", "http://b"])
    append(folder.events, event(NOW - 50, "milling"), event(NOW - 40, "absent", "http://b", "does not answer"))
    append(
        folder.events, event(NOW - 30, "lost", "http://a", "reset"), event(NOW - 20, "leaves", "http://c", "taken out")
    )
    append(folder.load, load(NOW - 5, "http://a", state="lost", running=None), load(NOW - 5, "http://c"))
    engines = {e.name: e for e in watch(folder).refresh().engines}
    assert engines.keys() == {"http://a", "http://b"}
    assert (engines["http://a"].state, engines["http://a"].why, engines["http://a"].running) == ("lost", "reset", None)
    assert engines["http://b"].state == "absent"


@pytest.mark.parametrize(
    ("subject", "without"),
    [("http://b:1", "the run goes on without it"), ("run", "goes on without an engine")],  # as older runs tell it
)
def test_an_engine_that_has_never_answered(tmp_path: Path, subject: str, without: str) -> None:
    folder = begin(tmp_path, {"name": "d"}, engines=["http://e", "http://b:1"])
    said = f"{without} until it answers: no server answers at http://b:1: Connection refused"
    append(folder.events, event(NOW - 20, "absent", subject, said), event(NOW - 10, "milling"))
    append(folder.load, done(NOW - 10, d=(0, 0, 0, 0)), load(NOW - 5))
    figures = watch(folder).refresh()
    assert [(e.name, e.state) for e in figures.engines] == [("http://e", "open"), ("http://b:1", "absent")]
    first = diagnose(figures)[0]
    assert (first.level, first.subject) == (Level.WARN, "http://b:1")
    assert first.message == "engine absent: http://b:1: Connection refused; the others go on"
    assert first.advice.endswith(f"draftmill control {tmp_path} --no-engine http://b:1")
    steer(folder, engines={"http://b:1": False})
    assert [e.name for e in watch(folder).refresh().engines] == ["http://e"], "taken out before it ever answered"
    folder.control.unlink()
    append(folder.events, event(NOW - 4, "joins", "http://b:1", "8 at once to begin with"))
    append(folder.load, load(NOW - 3, "http://b:1"))
    assert {e.state for e in watch(folder).refresh().engines} == {"open"}


@pytest.mark.parametrize("settings", [True, False])
def test_embedded_engines_that_were_never_there(tmp_path: Path, settings: bool) -> None:
    folder = begin(tmp_path, {"name": "d"}, engines=["http://e", "embedded", "embedded"])
    said = "the run goes on without it until it answers: m.gguf: no such GGUF file"
    told = [event(NOW - 20, "absent", name, said) for name in ("embedded", "embedded-2")]
    append(folder.events, *told, event(NOW - 10, "milling"))
    append(folder.load, done(NOW - 10, d=(0, 0, 0, 0)), load(NOW - 5))
    if not settings:
        folder.settings.unlink()
    figures = watch(folder).refresh()
    absent = [("embedded", "absent"), ("embedded-2", "absent")]
    assert [(e.name, e.state) for e in figures.engines] == [("http://e", "open"), *absent]
    first = diagnose(figures)[0]
    assert first.message == "engine absent: embedded: m.gguf: no such GGUF file; the others go on"
    assert first.advice.endswith(f"draftmill control {tmp_path} --no-engine embedded")
    append(folder.events, event(NOW - 4, "joins", "embedded-2", "8 at once to begin with"))
    assert [e.name for e in watch(folder).refresh().engines] == ["http://e", "embedded"]


def test_a_server_that_draftmill_keeps_is_told_apart(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    append(folder.events, event(NOW - 30, "milling"), event(NOW - 9, "lost", "http://a:1", "reset"))
    append(folder.load, load(NOW - 5, "http://a:1", state="lost", running=None), load(NOW - 5, "http://b:1"))
    folder.serve.create()
    told = event(NOW - 60, "starting", "server 0", "process 12 at http://a:1, log runs/my run/serve/server-0.log")
    append(folder.serve.events, told, b"torn")
    assert [e.kept for e in watch(folder).refresh().engines] == ["", ""], "nobody holds its lock"
    holder = {"pid": os.getpid(), "host": os.uname().nodename, "since": "", "command": ""}
    folder.serve.lock.write_text(json.dumps(holder))
    assert [e.kept for e in watch(folder).refresh().engines] == ["runs/my run/serve/server-0.log", ""]
    append(folder.serve.events, b"\n", event(NOW, "given up", "server 0", "mend it"))
    assert [e.kept for e in watch(folder).refresh().engines] == ["", ""]


def test_what_a_run_goes_on_with(tmp_path: Path) -> None:
    folder = begin(tmp_path / "my run", {"name": "d"})
    assert watch(folder).refresh().again == "the same `draftmill run` command"
    settings = read_settings(folder)
    assert settings
    example = recipes.load(examples.QUICKSTART / "recipe.yaml").resolved()
    write_settings(folder, msgspec.structs.replace(settings, recipe=example))
    assert watch(folder).refresh().again == f"`draftmill quickstart --out '{folder.path}'`"
    changed = example | {"sampling": example["sampling"] | {"temperature": 0.5}}
    write_settings(folder, msgspec.structs.replace(settings, recipe=changed))
    assert watch(folder).refresh().again == "the same `draftmill run` command", "a copy that was changed"
    folder.settings.unlink()
    append(folder.events, event(NOW - 900, "milling"))
    figures = watch(folder).refresh()
    assert figures.again is None and diagnose(figures)[0].advice.startswith(f"restore {folder.path}/run.yaml")


def test_datasets_of_a_refused_start_are_none_of_the_runs(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"}, {"name": "new"})

    def names() -> list[str]:
        return [d.name for d in watch(folder).refresh().datasets]

    assert names() == ["d", "new"]
    settings = read_settings(folder)
    assert settings
    write_settings(folder, msgspec.structs.replace(settings, left_out=["new"]))
    assert names() == ["d"]
    append(folder.dataset("new").journal, completion(0, dataset="new"))
    assert names() == ["d", "new"]  # it was answered before it was left out


def test_answers_that_are_gone(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    journal = folder.dataset("d").journal
    append(folder.events, event(NOW - 900, "milling"))
    append(folder.load, done(NOW - 800, d=(1, 0, 5, 0)))
    append(journal, completion(0))
    assert not only(watch(folder).refresh()).lost
    journal.unlink()
    figures = watch(folder).refresh()
    assert only(figures).lost and diagnose(figures)[0].advice.startswith(f"restore {journal}")


def test_figures_of_an_engine_that_is_silent_are_not_those_of_now(tmp_path: Path) -> None:
    """A server that hangs while it is started again answers no question for half a minute."""
    folder = begin(tmp_path, {"name": "d"})
    append(folder.events, event(NOW - 90, "milling"))
    append(folder.load, done(NOW - 30, d=(0, 0, 0, 0)), load(NOW - 30, generation_rate=9.0))
    now = NOW - 28
    watched = RunWatch(tmp_path, now=lambda: now)
    (engine,) = watched.refresh().engines
    assert (engine.running, engine.rate, engine.in_flight) == (8, 9.0, 8)
    now = NOW
    figures = watched.refresh()
    (engine,) = figures.engines
    assert (engine.state, engine.running, engine.kv_use, engine.rate, figures.server_rate) == ("open", *[None] * 4)
    assert engine.in_flight == 8, "is our own"


def test_damage_that_was_made_up_for_keeps_no_run_from_being_complete(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 2})
    append(folder.events, event(NOW - 9, "milling"), event(NOW - 5, "ended", "run", "every prompt … is settled"))
    append(folder.dataset("d").journal, completion(0), b'{"id": "torn\n')
    settle(folder, "d")
    assert "1 prompt still owed" in diagnose(watch(folder).refresh())[0].message
    append(folder.dataset("d").journal, completion(1))
    settle(folder, "d")
    levels = {finding.verdict: finding.level for finding in diagnose(watch(folder).refresh())}
    assert list(levels.items()) == [(Verdict.ENDED, Level.GOOD), (Verdict.UNREAD, Level.INFO)]


def test_what_was_wrong_with_an_engine_is_forgotten_at_the_next_start(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"}, engines=["http://e", "http://b"])
    append(folder.events, event(NOW - 90, "milling"), event(NOW - 80, "lost", "http://e", "reset"))
    append(folder.events, event(NOW - 20, "absent", "http://b", "does not answer"), event(NOW - 10, "milling"))
    append(folder.load, done(NOW - 10, d=(0, 0, 0, 0)), load(NOW - 5))
    engines = {e.name: e for e in watch(folder).refresh().engines}
    assert (engines["http://e"].why, engines["http://b"].state) == ("", "absent")
    append(folder.events, event(NOW, "ended"))
    assert {e.name for e in watch(folder).refresh().engines} == {"http://e"}


def test_figures_are_json(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    append(folder.dataset("d").journal, completion(0))
    figures = watch(folder).refresh()
    assert msgspec.json.decode(msgspec.json.encode(figures))["datasets"][0]["generated"] == 5
    assert DatasetFolder(tmp_path / "d").journal.exists()


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="holds no run"):
        RunWatch(tmp_path / "nothing")


def settle(folder: RunFolder, *names: str, **asked: int) -> None:
    """Write the rows of datasets, as a run does at its end."""
    for name in names:
        files = folder.dataset(name)
        refresh_rows(files, load_standing(files, **asked))  # type: ignore[arg-type]


def test_rows_are_those_of_the_training_file(tmp_path: Path) -> None:
    """Each turn is a row, and what is not written is known not to be."""
    folder = begin(tmp_path, {"name": "d", "prompts": 3, "budget": 20})
    files = folder.dataset("d")
    ids = [1, 2, 3]
    append(files.journal, completion(0, 4, more=True), completion(0, 4, turn=1, more=True, prompt_ids=ids))
    append(files.journal, completion(0, 4, turn=2, prompt_ids=ids), completion(1, 9), completion(2, 9))
    watched = watch(folder)
    assert (only(watched.refresh()).rows, only(watched.refresh()).written) == (4, None)
    settle(folder, "d", budget=20)
    assert (only(watched.refresh()).rows, only(watched.refresh()).written) == (4, 4)
    assert len(files.rows.read_bytes().splitlines()) == 4
    files.rows.write_bytes(b"")
    assert only(watched.refresh()).written is None, "it is not as it was built"


def test_an_ended_run_is_complete_only_if_its_files_are(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 2}, max_error_share=0.5)
    append(folder.events, event(NOW - 9, "milling"), event(NOW - 5, "ended", "run", "every prompt … is settled"))
    append(folder.dataset("d").journal, completion(0))
    append(folder.dataset("d").errors, failure(1))
    assert "of d, 1 row should be written" in diagnose(watch(folder).refresh())[0].message
    settle(folder, "d")
    assert diagnose(watch(folder).refresh())[0].level is Level.GOOD
    settings = folder.settings.read_text()
    folder.settings.write_text(settings.replace("max_error_share: 0.5", "max_error_share: 0.2"))
    worst = diagnose(watch(folder).refresh())[0]
    assert worst.level is Level.WARN and "50.0% of d's prompts became errors (1)" in worst.message


def test_what_needs_no_server_is_done_without_a_start(tmp_path: Path) -> None:
    """Rows that were tokenized already, answers that were adopted, and no prompts at all."""
    folder = begin(tmp_path, {"name": "d", "prompts": 1}, {"name": "e", "prompts": 0})
    append(folder.events, event(NOW - 500, "start"), event(NOW - 400, "prepared", "d"))
    assert watch(folder).refresh().phase is Phase.NEW
    append(folder.dataset("d").journal, completion(0))
    settle(folder, "d", "e")
    figures = watch(folder).refresh()
    assert figures.phase is Phase.ENDED and diagnose(figures)[0].level is Level.GOOD
    folder.events.unlink()
    assert watch(folder).refresh().phase is Phase.ENDED, "adopted, with nothing told of it"
    folder.dataset("e").prompts.unlink()
    assert watch(folder).refresh().phase is Phase.NEW, "a dataset is not prepared yet"


def test_a_run_that_is_over_shows_nothing_as_if_it_were_now(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d"})
    append(folder.events, event(NOW - 40, "milling"))
    append(folder.load, done(NOW - 30, d=(0, 0, 0, 0)), load(NOW - 30, generation_rate=9.0, preemptions=2))
    append(folder.load, done(NOW - 10, d=(1, 0, 100, 0)), load(NOW - 10, generation_rate=9.0, preemptions=2))
    assert watch(folder).refresh().server_rate == 9.0
    append(folder.events, event(NOW - 5, "ended", "run", "interrupted"))
    figures = watch(folder).refresh()
    (engine,) = figures.engines
    assert (engine.state, engine.running, engine.queued, engine.rate, engine.in_flight) == ("", None, None, None, None)
    assert (engine.mean_rate, engine.retracted, figures.server_rate) == (9.0, 2, None)
    assert (figures.total.rates.last_5min, figures.total.rates.start) == (None, 5.0)


def test_an_older_line_that_does_not_say_how_long_its_prompt_is(tmp_path: Path) -> None:
    append(
        tmp_path / "B1" / "raw_responses.jsonl",
        RAW,
        {"completion_tokens": 5},
        {**OPENAI, "usage": {"completion_tokens": 6}},
    )
    dataset = only(watch(tmp_path).refresh())
    assert dataset.generated == 71 and dataset.prompt_lengths
    assert (dataset.prompt_lengths.count, dataset.prompt_lengths.mean) == (1, 12)


def test_the_folder_of_one_dataset(tmp_path: Path) -> None:
    """Without a run around it, it is one that older scripts left; in a run, the run is named."""
    append(tmp_path / "old" / "raw_responses.jsonl", OPENAI, RAW)
    watched = watch(tmp_path / "old")
    figures = watched.refresh()
    assert (only(figures).name, figures.total.answers, only(watched.refresh()).answers) == ("old", 2, 2)
    text = Completions(watched.folder).decode(figures.recent[0]).answer[0].text
    assert text == "x"
    folder = begin(tmp_path / "run", {"name": "d"})
    append(folder.dataset("d").journal, completion(0))
    with pytest.raises(UsageFault, match="one dataset of a run"):
        watch(folder.dataset("d").path)


def generating(path: Path, seconds: int) -> RunFolder:
    """A run that has done 20 tokens a second for so long."""
    folder = begin(path, {"name": "d", "prompts": 600})
    append(folder.dataset("d").journal, *(completion(n, 100) for n in range(20)))
    append(folder.events, event(NOW - seconds, "milling"))
    for at in range(0, seconds + 1, 10):
        time = NOW - seconds + at
        append(folder.load, done(time, d=(1, 0, 20 * at, 0)), load(time, generation_rate=20.0))
    return folder


def test_a_paused_run_is_told_as_one_and_has_no_end(tmp_path: Path) -> None:
    folder = generating(tmp_path, 100)
    figures = watch(folder).refresh()
    assert figures.total.eta and only(figures).eta
    append(folder.events, event(NOW, "control", "run", PAUSED))
    figures = watch(folder).refresh()
    assert figures.phase is Phase.PAUSED and not figures.total.eta and not only(figures).eta
    assert head(figures).plain == f"{tmp_path}  running for 1m40s, paused, last seen 0s ago"


def test_no_end_is_told_in_the_first_minute_of_datasets_neither(tmp_path: Path) -> None:
    dataset = only(watch(generating(tmp_path, 50)).refresh())
    assert dataset.rates.last_5min == 20.0 and dataset.eta is None


def test_a_server_that_hangs_is_not_healthy(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 600})
    append(folder.events, event(NOW - 200, "milling"))
    for at in range(-60, 1, 2):
        append(folder.load, done(NOW + at, d=(0, 0, 0, 2000 + 20 * at)), load(NOW + at, generation_rate=20.0, cap=9))
    assert [f.verdict for f in diagnose(watch(folder, NOW + 10).refresh())] == [Verdict.HEALTHY]
    figures = watch(folder, NOW + 21).refresh()
    assert [f.message for f in diagnose(figures)] == ["http://e: no figures for 21s"]
    assert (figures.total.rates.last_10s, figures.server_rate, figures.total.rates.last_5min) == (None, None, 20.0)
