"""A run, or any text dataset, opened to count the drift of its answers."""

import heapq
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from draftmill.errors import StorageError
from draftmill.journal.folder import DatasetFolder
from draftmill.ledger.opened import open_run
from draftmill.ledger.order import canonical, conversation_id, rank
from draftmill.ledger.rows import changes
from draftmill.ledger.standing import Standing, unreadable
from draftmill.mill.dialogue import Dialogue
from draftmill.mill.drift import Figure, of_recordings, of_run
from draftmill.mill.target import own_tokenizer, resolve
from draftmill.recipe import EMBEDDED, Recipe, validate
from draftmill.records import Conversation, FilteredRow, TokenizedRow, UnreadRow
from draftmill.render import tokenizer as tokenizers
from draftmill.render.dialect import Dialect
from draftmill.render.drift import Unjudged
from draftmill.render.markers import custom
from draftmill.render.template import ChatTemplate
from draftmill.sources import Source, open_source
from draftmill.sources.history import Recorded, is_blank

Tell = Callable[[str, int], None]  # hears now and then how many answers of which dataset were looked at


class Judged(msgspec.Struct, frozen=True):
    """One dataset: how many rows it has, what could not be read of it, and the figure of the rest."""

    rows: int
    figure: Figure
    notes: list[str] = []


def run(path: Path, *, only: tuple[str, ...], sample: int | None, tell: Tell) -> dict[str, Judged]:
    """The datasets of a run: all rows that count, or the first ``sample`` of the order. Takes no lock and changes
    nothing. Raises UsageFault for an unknown dataset, or where there is no run."""
    opened = open_run(path)
    folder, settings, recipe = opened.folder, opened.settings, opened.recipe
    names = opened.chosen(only)
    tokenizer, template = own_tokenizer(folder, settings)
    judged = {}
    for name in names:
        dataset, files = recipe.dataset(name), folder.dataset(name)
        standing = opened.standing(name)
        dialect = Dialect(tokenizer, template, recipe.template_of(dataset), custom(recipe.markers))
        dialogue = Dialogue(dialect, tokenizer, dataset.history)
        figure = of_run(files, standing, dialogue, rows=sample, tell=partial(tell, name))
        passed = standing.tally().passed_through
        notes = [f"rows that are passed through, nothing of them was generated: {passed}"] if passed else []
        notes += unreadable(files, standing) if standing.tally().owed else []
        notes += _changed(files, standing, sample)
        judged[name] = Judged(sum(len(offsets) or 1 for _, offsets in standing.counting()), figure, notes)
    return judged


def _changed(files: DatasetFolder, standing: Standing, sample: int | None) -> list[str]:
    """What is to be said of answers that are counted as they stand now and had another row built of them."""
    try:
        found = changes(files, standing, sample)
    except StorageError as error:
        return [error.message]
    return ["; ".join(found)] if found else []


def recipe(source: str, model: str, template: dict[str, Any], *, trusted: bool, **dataset: str | None) -> Recipe:
    """A recipe of one text dataset, to be looked at and never run. Raises RecipeError."""
    data = {
        "model": model,
        "engines": EMBEDDED,
        "template": template,
        "trust_remote_code": trusted,
        "datasets": [{"name": "data", "source": source, **dataset}],
    }
    return validate(data, "draftmill drift")


def recordings(recipe: Recipe, *, sample: int | None, tell: Tell) -> dict[str, Judged]:
    """The dataset of a recipe, under its source: every answer that was recorded, or those of ``sample`` rows."""
    (dataset,) = recipe.datasets
    source = open_source(dataset, Path())
    tokenizer = tokenizers.load(resolve(recipe, Path()).tokenizer, trust_remote_code=recipe.trust_remote_code)
    template = ChatTemplate(tokenizer, date.today().isoformat())
    template.refuse_unknown(recipe.template)
    dialect = Dialect(tokenizer, template, recipe.template)
    rows = _Rows(source)
    chosen = iter(rows) if sample is None else iter(heapq.nsmallest(sample, rows, key=_rank))
    figure = of_recordings(chosen, dialect, tokenizer, tell=partial(tell, dataset.source))
    notes = rows.notes()
    if rows.silent and dialect.markers.thinks and (figure.drifted or Unjudged.THINKING in figure.unjudged):
        notes.append(
            f"answers without thinking, of a model that thinks: {rows.silent}; where it was off, tell the template, "
            "for example with --template enable_thinking=false"
        )
    return {dataset.source: Judged(rows.read, figure, notes)}


def _rank(row: tuple[str, Recorded]) -> int:
    """A rank that depends on nothing but the conversation, so that the first of them are a fair sample."""
    _, recorded = row
    whole = Conversation(recorded.prompt.messages + recorded.later, recorded.prompt.tools)
    return rank(0, conversation_id("", canonical(whole), 0))


class _Rows:
    """The conversations of a dataset, each with its place, and what is to be said of the rows that are none.

    ``silent`` counts answers that were recorded without thinking.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.read = self.silent = 0
        self._unread = self._tokenized = self._unanswered = 0
        self._first: UnreadRow | None = None

    def __iter__(self) -> Iterator[tuple[str, Recorded]]:
        for row in self._source.recordings():
            self.read += 1
            if isinstance(row, UnreadRow):
                self._unread += 1
                self._first = self._first or row
            elif isinstance(row, TokenizedRow):
                self._tokenized += 1
            elif not isinstance(row, FilteredRow):
                messages = row.recorded.prompt.messages + row.recorded.later
                answers = [m for m in messages if m["role"] == "assistant" and not is_blank(m)]
                self._unanswered += not answers
                self.silent += sum(not m.get("reasoning_content") for m in answers)
                yield str(row.where), row.recorded

    def notes(self) -> list[str]:
        found = []
        if self._first:
            found.append(
                f"rows that cannot be read: {self._unread}; the first: {self._first.where}: {self._first.reason}"
            )
        if self._tokenized:
            found.append(f"rows that are tokenized already, and no text: {self._tokenized}")
        if self._unanswered:
            found.append(f"rows without a recorded answer: {self._unanswered}")
        return found
