"""Preparation as a whole: which rows become prompts, in which order, however it is done and often it is killed."""

import gzip
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from draftmill.errors import RunError, SourceError
from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.mill import prompts as preparations
from draftmill.mill import reading
from draftmill.mill.crew import Crew
from draftmill.mill.prepared import NOT_SAMPLED, UNREAD, Prepared
from draftmill.mill.prompts import Preparation
from draftmill.mill.rendering import TOO_LONG, TOO_SHORT, Copy
from draftmill.recipe import Dataset
from draftmill.records import Completion, Finish
from draftmill.render import tokenizer
from draftmill.render.dialect import Dialect
from draftmill.render.markers import Custom
from draftmill.render.template import ChatTemplate
from draftmill.sources import open_source
from tests.render.tiny import directory

WORDS = ["amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "hazel", "inlet", "jetty", "knoll", "larch"]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CHUNK_ROWS", 7)
    monkeypatch.setattr(preparations, "_BATCH", 5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return directory(tmp_path_factory.mktemp("model"))


def asks(count: int, seed: int = 0, **columns: Any) -> list[dict[str, Any]]:
    """Questions of 3 to 30 words, no two alike."""
    drawn = random.Random(seed)
    texts = [" ".join(drawn.choice(WORDS) for _ in range(drawn.randint(3, 30))) + f" q{n}" for n in range(count)]
    return [{"messages": [{"role": "user", "content": text}], **columns} for text in texts]


class Bench:
    """One source and one folder, prepared as often as wanted."""

    def __init__(self, folder: Path, model: Path, rows: list[Any], name: str = "d") -> None:
        self.base = folder
        self.name = name
        self.source = folder / f"{name}.jsonl"
        self.source.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
        self.model = model
        self.loaded = tokenizer.load(str(model))
        self.dialect = Dialect(self.loaded, ChatTemplate(self.loaded, "2026-01-01"), {})

    def folder(self, run: str = "run") -> DatasetFolder:
        return DatasetFolder(self.base / run / self.name)

    def prepare(
        self, run: str = "run", *, crew: Crew | None = None, on_progress: Any = None, **fields: Any
    ) -> Prepared:
        dataset = Dataset(name=self.name, source=self.source.name, **fields)
        options: dict[str, Any] = {"on_progress": on_progress} if on_progress else {}
        preparation = Preparation(
            dataset,
            self.folder(run),
            seed=0,
            tokenizer=self.loaded,
            dialect=self.dialect,
            copy=Copy(str(self.model), "2026-01-01", {}, Custom()),
            crew=crew,
            **options,
        )
        return preparation.run(open_source(dataset, self.base))

    def files(self, run: str = "run") -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder(run).path.iterdir()) if path.is_file()}

    def lines(self, run: str = "run") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.folder(run).prompts.read_text().splitlines()]


def contents(lines: list[dict[str, Any]]) -> list[str]:
    return [line["messages"][-1]["content"] for line in lines]


ALL_KINDS: list[Any] = [*asks(90), "{torn\n", *asks(20), *asks(40, seed=1)]


@pytest.mark.parametrize(
    "fields",
    [{}, {"n": 3}, {"duplicates": "exact", "min_prompt_tokens": 80, "samples": 50}, {"duplicates": "near", "n": 2}],
    ids=str,
)
def test_it_is_the_same_whoever_does_it(tmp_path: Path, model: Path, fields: dict[str, Any]) -> None:
    bench = Bench(tmp_path, model, ALL_KINDS)
    alone = bench.prepare("alone", **fields)
    with Crew(3) as crew:
        together = bench.prepare("together", crew=crew, **fields)
    assert together == alone and alone.adds_up()
    assert bench.files("together") == bench.files("alone")
    assert [line["position"] for line in bench.lines("alone")] == list(range(alone.positions))
    assert not (bench.folder("alone").path / ".prepare").exists()


@pytest.mark.parametrize("fields", [{}, {"duplicates": "near", "max_prompt_tokens": 150, "samples": 60}], ids=str)
def test_it_goes_on_wherever_it_was_stopped(tmp_path: Path, model: Path, fields: dict[str, Any]) -> None:
    bench = Bench(tmp_path, model, ALL_KINDS)
    bench.prepare("whole", **fields)
    last: list[tuple[int, int]] = []

    def stop(read: int, written: int) -> None:
        """Every other time that there is something new."""
        if not last or (read, written) > last[-1]:
            last.append((read, written))
            if len(last) % 2 == 0:
                raise KeyboardInterrupt

    starts, report = 0, None
    while report is None:
        starts += 1
        try:
            report = bench.prepare("often", on_progress=stop, **fields)
        except KeyboardInterrupt:
            assert starts < 200
    assert starts > 10 and report.adds_up()
    assert bench.files("often") == bench.files("whole")
    assert all(b[0] - a[0] <= 7 for a, b in pairwise(last)), "every start goes on where the one before was stopped"


def test_the_head_of_the_order_does_not_depend_on_what_is_dropped(tmp_path: Path, model: Path) -> None:
    bench = Bench(tmp_path, model, ALL_KINDS)
    bench.prepare("all")
    whole = bench.lines("all")
    report = bench.prepare("some", min_prompt_tokens=90, max_prompt_tokens=170, samples=30)
    fitting = [line for line in whole if 90 <= len(line["prompt_ids"]) <= 170]
    assert [line["id"] for line in bench.lines("some")] == [line["id"] for line in fitting[:30]]
    last = next(n for n, line in enumerate(whole) if line["id"] == fitting[29]["id"])
    short = sum(len(line["prompt_ids"]) < 90 for line in whole[: last + 1])
    assert report.dropped == {
        UNREAD: 1,
        TOO_SHORT: short,
        TOO_LONG: last + 1 - 30 - short,
        NOT_SAMPLED: len(whole) - last - 1,
    }
    assert not report.exhausted and bench.prepare("most", min_prompt_tokens=90).exhausted


def test_more_samples_go_on_in_the_same_order(tmp_path: Path, model: Path) -> None:
    bench = Bench(tmp_path, model, ALL_KINDS)
    limits = {"min_prompt_tokens": 90, "duplicates": "exact"}
    bench.prepare(samples=11, **limits)
    few = bench.lines()
    bench.prepare(samples=37, **limits)
    assert bench.lines()[:11] == few and len(bench.lines()) == 37


def test_exact_copies_go_and_the_first_one_stays(tmp_path: Path, model: Path) -> None:
    bench = Bench(tmp_path, model, ALL_KINDS)
    keep = bench.prepare("keep")
    assert (keep.repeated, keep.positions, keep.dropped) == (20, 150, {UNREAD: 1})
    exact = bench.prepare("exact", duplicates="exact")
    assert (exact.repeated, exact.positions, exact.dropped) == (20, 130, {UNREAD: 1, "exact duplicate": 20})
    ids = {line["id"] for line in bench.lines("keep")}
    assert {line["id"] for line in bench.lines("exact")} < ids, "the ids of what stays are as ever"


def test_near_copies_go(tmp_path: Path, model: Path) -> None:
    rows = asks(60)
    near = [
        {"messages": [{"role": "user", "content": f"Hello! {row['messages'][0]['content'].upper()}"}]} for row in rows
    ]
    report = Bench(tmp_path, model, rows + near).prepare(duplicates="near")
    assert report.positions == 60 and report.dropped == {"near duplicate": 60}


def test_columns_choose_rows(tmp_path: Path, model: Path) -> None:
    rows = [*asks(10, lang="en", ok=True), *asks(10, 1, lang="de", ok=True), *asks(5, 2, lang="fr", ok=1), *asks(3, 3)]
    bench = Bench(tmp_path, model, rows)
    assert bench.prepare("a", where={"lang": "en"}).dropped == {"filtered": 18}
    assert bench.prepare("b", where={"lang": ["en", "fr"]}).positions == 15
    assert bench.prepare("c", where={"lang": ["en", "fr"], "ok": True}).positions == 10
    assert bench.prepare("d", where={"lang": None}).positions == 3
    with pytest.raises(SourceError, match="none of its 28 rows is left as a prompt: 28 dropped as filtered"):
        bench.prepare("e", where={"lang": "it"})
    with pytest.raises(SourceError, match="none of its 28 rows is left as a prompt: 28 dropped as too long"):
        bench.prepare("g", max_prompt_tokens=1)
    with pytest.raises(SourceError, match="none of its first 28 rows has a column 'lnag'") as caught:
        bench.prepare("f", where={"lnag": "it"})
    assert "did you mean lang?" in caught.value.advice


def test_languages_choose_rows(tmp_path: Path, model: Path) -> None:
    english = "What would you recommend that somebody should read about the history of the railways"
    german = "Was würden Sie jemandem empfehlen, der etwas über die Geschichte der Eisenbahn lesen möchte"
    rows = [{"prompt": f"{text} {n}?"} for n in range(8) for text in (english, german)]
    report = Bench(tmp_path, model, rows).prepare(languages=["en"])
    assert (report.positions, report.dropped) == (8, {"language": 8})


def test_a_file_that_breaks_off_is_refused_unless_the_recipe_takes_it(tmp_path: Path, model: Path) -> None:
    bench = Bench(tmp_path, model, [])
    packed = gzip.compress("".join(json.dumps(row) + "\n" for row in asks(4000)).encode())
    bench.source = tmp_path / "d.jsonl.gz"
    bench.source.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(
        SourceError, match=r"the rest of .*d.jsonl.gz is missing: line \d+: the gzip stream ends"
    ) as caught:
        bench.prepare()
    assert "incomplete: accept" in caught.value.advice and list(bench.folder().path.iterdir()) == []
    report = bench.prepare(incomplete="accept")
    assert report.unread == 1 and report.adds_up() and "ends early" in report.lost[0]
    bench.source.write_bytes(packed)
    with pytest.raises(RunError, match="its source changed since this run began"):
        bench.prepare()


def test_prompts_that_are_gone_are_made_again_or_nothing_is(tmp_path: Path, model: Path) -> None:
    """Beside a journal its answers say what the prompts were."""
    bench = Bench(tmp_path, model, asks(40))
    bench.prepare()
    before, folder = bench.files(), bench.folder()
    answers = [
        Completion(line["id"], line["position"], 0, [1], 1, 1, Finish.STOP, 1, None, 0.1, "e", 9)
        for line in bench.lines()[:20]
    ]
    folder.journal.write_bytes(b"".join(encode(answer) + b"\n" for answer in answers))
    folder.prompts.unlink()
    bench.prepare()
    assert bench.files() == before | {folder.journal.name: folder.journal.read_bytes()}
    folder.prompts.unlink()
    bench.source.write_text("".join(json.dumps(row) + "\n" for row in asks(40, seed=9)))
    with pytest.raises(RunError, match=r"its prompts.jsonl is gone, and its source no longer gives") as caught:
        bench.prepare()
    assert "put prompts.jsonl back" in caught.value.advice
    assert not folder.prompts.exists() and not (folder.path / ".prepare").exists()
    bench.source.write_text("".join(json.dumps(row) + "\n" for row in asks(10)))
    with pytest.raises(RunError, match=r"its prompts.jsonl is gone"):
        bench.prepare()


def test_the_report_of_an_older_version_is_read(tmp_path: Path, model: Path) -> None:
    bench = Bench(tmp_path, model, asks(3))
    report = bench.prepare()
    old = {field.name: getattr(report, field.name) for field in msgspec.structs.fields(Prepared) if field.required}
    read = msgspec.json.decode(msgspec.json.encode(old), type=Prepared)
    assert preparations.Prepared and read.positions == 3 and read.source == {}
