"""The prompts of a comparison: a run's own, or those of any dataset, a fair and reproducible choice of either."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import msgspec

from draftmill.compare.effects import Answer, Calls
from draftmill.compare.hear import Question
from draftmill.errors import RenderError, RunError
from draftmill.journal.folder import DatasetFolder, RunFolder
from draftmill.journal.prompts import read_texts
from draftmill.ledger.order import canonical, conversation_id, rank
from draftmill.recipe import Dataset
from draftmill.records import Conversation, Finish, SourceRow
from draftmill.render.dialect import Dialect
from draftmill.render.tokenizer import Tokenizer
from draftmill.sources.source import open_source

T = TypeVar("T")

_AHEAD = 4  # times as many as are asked for are ranked, so that those too long can be left out


class Chosen(msgspec.Struct, frozen=True):
    """The questions, and how many were left out before them because they are ``too_long``."""

    questions: list[Question]
    too_long: int = 0


def of_run(path: Path, only: tuple[str, ...], number: int, seed: int, most: int) -> Chosen:
    """``number`` first prompts of a run's conversations, of all its datasets in turn, each in the order of a hash.

    ``most`` is how many ids a prompt may have. Raises RunError where there are none.
    """
    folders = [f for f in RunFolder(path).datasets() if not only or f.name in only]
    if not folders:
        which = f" of {', '.join(only)}" if only else ""
        raise RunError(f"{path}: has no prompts{which}", "make some with `draftmill prepare`")
    ranked = [[q for _, q in _first(_prompts(folder), number * _AHEAD, seed)] for folder in folders]
    return _chosen(ranked, number, most, str(path))


def of_files(
    sources: Sequence[str], tokenizer: Tokenizer, dialect: Dialect, number: int, seed: int, most: int
) -> Chosen:
    """The same of datasets in any format, rendered as a run would. Raises SourceError, RunError."""
    ranked = []
    for source in sources:
        first = _first(_conversations(source), number * _AHEAD, seed)
        ranked.append([Question(id, ids, c.tools) for id, c in first if (ids := _rendered(c, tokenizer, dialect))])
    return _chosen(ranked, number, most, ", ".join(sources))


def calls(questions: Sequence[Question], answers: Sequence[Answer], dialect: Dialect) -> list[Calls] | None:
    """The tool calls of the answers to questions with tools; None where no question has any, or the model is not shown
    them. A call counts as unusable where it cannot be read, has not ended, or names no tool of the question."""
    asked = [(question, answer) for question, answer in zip(questions, answers, strict=True) if question.tools]
    if not asked or dialect.lacks_native_tools:
        return None
    found = []
    for question, answer in asked:
        offered = {str((tool.get("function") or {}).get("name")) for tool in question.tools or ()}
        cut = answer.finish is Finish.LENGTH  # the call that the limit cut says nothing of the engine
        made = [c for c in dialect.parts(answer.ids, question.ids, question.tools).calls if c.closed or not cut]
        usable = sum(call.usable and call.reading.name in offered for call in made)
        found.append(Calls(len(made), len(made) - usable))
    return found


def _prompts(folder: DatasetFolder) -> Iterator[tuple[str, Question]]:
    for prompt in read_texts(folder.prompts):
        if prompt.prompt_ids and not prompt.fault and prompt.loss_mask is None:
            yield prompt.id, Question(prompt.id, prompt.prompt_ids, prompt.tools)


def _conversations(source: str) -> Iterator[tuple[str, Conversation]]:
    for row in open_source(Dataset(name="prompts", source=source), Path()).rows():
        if isinstance(row, SourceRow):
            yield conversation_id("", canonical(row.conversation), 0), row.conversation


def _first(found: Iterable[tuple[str, T]], number: int, seed: int) -> list[tuple[str, T]]:
    """Those of the lowest rank, a fair choice that depends on neither the file's order nor its length."""
    return heapq.nsmallest(number, found, key=lambda each: (rank(seed, each[0]), each[0]))


def _rendered(conversation: Conversation, tokenizer: Tokenizer, dialect: Dialect) -> list[int]:
    """A conversation's ids; none where the template refuses it."""
    try:
        return tokenizer.encode([dialect.text(conversation)])[0]
    except RenderError:
        return []


def _chosen(ranked: Sequence[Sequence[Question]], number: int, most: int, place: str) -> Chosen:
    mixed = [q for together in zip_longest(*ranked) for q in together if q]
    fitting: list[Question] = []
    too_long = 0
    for question in mixed:
        if len(fitting) == number:
            break
        if len(question.ids) > most:
            too_long += 1
        else:
            fitting.append(question)
    if len(fitting) < 2:
        why = f"; {too_long} have more than the {most} tokens that context and limit leave" if too_long else ""
        raise RunError(f"{place}: there are {len(fitting)} prompts to compare by, at least 2 are needed{why}")
    return Chosen(fitting, too_long)
