"""The page: everything from outside is text, nothing is fetched, and what nobody knows is not a zero."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmill.journal.folder import RunFolder
from draftmill.records import Finish
from draftmill.watch.completions import Span
from draftmill.watch.figures import DatasetFigures, ErrorReason, Event, Phase, RunFigures, Unread
from draftmill.watch.finding import Finding, Level, Verdict
from draftmill.watch.report.cells import percent
from draftmill.watch.report.drift import Drift, Example
from draftmill.watch.report.facts import Facts, Made, NotKnown, gather
from draftmill.watch.report.page import page_of
from draftmill.watch.report.samples import Sample
from draftmill.watch.report.verification import Check, Shown, Verification
from draftmill.watch.stats import RunWatch
from tests.watch.folders import NOW, append, begin, completion, done, event, failure, load

TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "main",
    "footer",
    "section",
    "div",
    "span",
    "p",
    "h1",
}
TAGS |= {"h2", "h3", "dl", "dt", "dd", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"}
TAGS |= {"svg", "path", "pre", "strong"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "style", "role", "aria-label", "aria-hidden"}
ATTRIBUTES |= {"data-label", "viewbox", "preserveaspectratio", "d"}
EMPTY = {"meta", "path"}


class Page(HTMLParser):
    """Tags, attributes and texts; every tag that opens must close."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.cells: list[list[str]] = []
        self.open: list[str] = []
        self.feed(content.decode())
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.cells[-1][-1] += data
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts).replace("\N{NO-BREAK SPACE}", " ")

    def row(self, *begins: str) -> list[str]:
        """The first row that begins so."""
        rows = [[cell.strip().replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in self.cells]
        return next(row for row in rows if row[: len(begins)] == list(begins))


def poisoned(text: str) -> Facts:
    """Facts with this text wherever text comes from outside."""
    reason = ErrorReason(text, text, 3, text, text)
    unread = Unread(text, 1, 1, text)
    dataset = DatasetFigures(
        name=text, lane=text, answers=1, finishes={text: 1}, errors=3, error_reasons=[reason], unread=[unread]
    )
    run = RunFigures(
        path=text, time=NOW, phase=Phase.ENDED, ending=text, datasets=[dataset], total=dataset, control_fault=text
    )
    return Facts(
        draftmill="0",
        made=NOW,
        recipe=Made(text, {text: text}, 0, text),
        not_known=[NotKnown(text, text)],
        findings=[Finding(Verdict.ERRORS, Level.BAD, text, text, text)],
        figures=run,
        timeline=[],
        events=[Event(NOW, "lost", text, text)],
        lengths={text: [(0, 2, 1.0)]},
        prompt_lengths={},
        drift={text: Drift(2, 1, {text: 1}, examples=[Example(text, text, 3, text, text)])},
        verification=Verification(
            [Check(text, text, 1, 0.5, text, 2, True, text, [Shown(text, text, text)])], False, {text: text}, 1
        ),
        samples=[Sample(text, 0, 0, 3, text, text, [Span("content", text), Span("reasoning", text)])],
    )


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "</style><img src=x onerror=alert(1)>",
        '" onmouseover="alert(1)',
        "' style='x",
        "{{ 7 * 7 }}{% raw %}",
        "</pre></section><h1>",
        "<!--",
        "]]>",
        "&lt;script&gt;",
    ],
)
def test_text_from_outside_is_only_text(text: str) -> None:
    page = Page(page_of(poisoned(text)))
    assert page.tags <= TAGS and page.attributes <= ATTRIBUTES
    assert page.text.count(text) >= 15  # where it stands it stands as it was


@given(st.text(max_size=30))
def test_any_text_makes_a_whole_page(text: str) -> None:
    page = Page(page_of(poisoned(text)))
    assert page.tags <= TAGS and page.attributes <= ATTRIBUTES


def test_unseen_characters_are_written_out() -> None:
    content = page_of(poisoned("a\x00b\u202ec\ud800d")).decode()
    assert "a\\u0000b\\u202ec\\ud800d" in content
    assert not {"\x00", "\u202e"} & set(content)


def test_nothing_is_fetched_and_nothing_runs() -> None:
    content = page_of(poisoned("x")).decode()
    assert "default-src 'none'" in content
    assert "<script" not in content and "src=" not in content and "href=" not in content and "http://" not in content


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    made = begin(tmp_path, {"name": "chat", "budget": 30}, {"name": "code", "prompts": 4})
    append(made.events, event(NOW, "milling"), event(NOW + 50, "lost", "http://e", "gone"), event(NOW + 95, "ended"))
    append(made.dataset("chat").journal, *(completion(n, 10, "chat") for n in range(5)))
    append(made.dataset("code").errors, failure(1, "does not <fit>", "code"))
    for t in range(0, 95, 5):
        append(made.load, done(NOW + t, chat=(1, 0, 10 * t, 5)), load(NOW + t, kv_used=50, kv_total=100))
    return made


def page_at(path: Path) -> Page:
    return Page(page_of(gather(RunWatch(path, now=lambda: NOW + 100), 0)))


def test_a_run(folder: RunFolder) -> None:
    page = page_at(folder.path)

    assert page.row("chat", "100 %", "30") == ["chat", "100 %", "30", "30", "20"]
    assert page.row("code", "0", "0") == ["code", "0", "0", "0", "1", "3", "0", "4"]
    assert page.row("all", "3", "2") == ["all", "3", "2", "0", "1", "3", "5", "14"]
    assert page.row("1", "code") == ["1", "code", "prompt", "does not <fit>", "d.jsonl:2"]
    assert page.row("2")[2:] == ["lost", "http://e", "gone"]
    assert page.row("code", "no answer yet")
    for title in ("Tokens a second", "Tokens so far", "Requests at the servers", "KV cache in use"):
        assert title in page.text


def test_lines_that_are_not_understood_make_no_zero(tmp_path: Path) -> None:
    append(tmp_path / "B1" / "raw_responses.jsonl", {"what": "is this"})
    append(
        tmp_path / "B2" / "raw_responses.jsonl", {"completion_tokens": 9, "id": "x", "finish_reason": "stop"}, {"no": 1}
    )
    page = page_at(tmp_path)
    assert "0" not in page.row("B1")
    assert page.row("B1")[1:3] == ["not known", "not known"]
    assert page.row("B2", "≥ 1")[1:3] == ["≥ 1", "≥ 9"]
    assert "there is no prompts.jsonl" in page.text and "Not known: no verification.json" in page.text


@pytest.mark.parametrize("make", ["nothing", "prepared", "no load", "one sample"])
def test_runs_with_little_in_them(tmp_path: Path, make: str) -> None:
    if make != "nothing":
        made = begin(tmp_path, {"name": "chat"}, {"name": "empty", "prompts": 0})
        if make == "no load":
            append(made.dataset("chat").journal, completion(0, 10, "chat"))
        if make == "one sample":
            append(made.load, load(NOW))
    page = page_at(tmp_path)
    assert "What is not known" in page.text


def test_the_checks_that_fire_stand_first(folder: RunFolder) -> None:
    checks = [
        {"name": "vocabulary", "severity": "error", "count": 0, "share": 0.0},
        {"name": "loops", "severity": "warning", "count": 31, "share": 0.031, "message": "to the end"},
        {"name": "mask", "severity": "error", "count": 1, "share": 0.0004},
    ]
    (folder.path / "verification.json").write_bytes(msgspec.json.encode({"checks": checks}))
    page = page_at(folder.path)
    names = [row[0] for row in page.cells if row and row[0] in ("vocabulary", "loops", "mask")]
    assert names == ["mask", "loops"]
    assert "found nothing: vocabulary" in page.text
    assert page.row("mask")[1:4] == ["error", "1", "< 0.1 %"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 %"), (0.0004, "< 0.1 %"), (0.025, "2.5 %"), (0.9999, "> 99.9 %"), (1.0, "100 %"), (1.035, "103.5 %")],
)
def test_percent_is_never_a_false_nothing_or_all(value: float, text: str) -> None:
    assert percent(value) == text.replace(" ", "\N{NO-BREAK SPACE}")


def test_limits_are_those_that_cut_the_answers_and_not_the_recipes_of_today(tmp_path: Path) -> None:
    folder = begin(tmp_path, {"name": "d", "prompts": 30}, lanes={"short": {"max_new_tokens": 512}})
    cut = (completion(n, 64, finish_reason=Finish.LENGTH, limit=64) for n in range(25))
    append(folder.dataset("d").journal, *cut)
    page = page_of(gather(RunWatch(tmp_path), samples=0)).decode()
    assert "by the limit of 64 tokens of lane short; 512 are allowed now" in page
    assert ">limit</span>" in page
