"""One part of a file of rows examined: every check of single rows, and what checks of whole files need of it.

Runs in several processes at once; everything here can be pickled.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from draftmill.errors import RenderError
from draftmill.records import Conversation
from draftmill.render.markers import Markers
from draftmill.render.special import SpecialText
from draftmill.verify import answers, masks, texts
from draftmill.verify.habits import Habits
from draftmill.verify.journaled import Files, Ledgered, Sent
from draftmill.verify.lines import Ids, Part, Row, hash_of, rows
from draftmill.verify.model import Flags, Model, ModelSpec
from draftmill.verify.tally import WINDOW, Tally

_LONG = 16  # ids of an answer that nobody gives twice by chance


@dataclass(frozen=True)
class Plan:
    """How the rows of one dataset are examined. ``tested`` is the share of answers whose tokenizer is looked at."""

    habits: Habits
    spec: ModelSpec | None = None
    ledgered: Ledgered | None = None
    tested: float = 1.0
    markers: Markers | None = None


class Other(NamedTuple):
    """A row whose answer is not the journal's: the answer's hash, ids around ``at``, from which on the row is another,
    its place in the ledger, and whether the text is the same."""

    row: int
    hash: int
    ids: list[int]
    at: int
    place: int
    same_text: bool


@dataclass
class Found:
    """What one part holds. Hashes, lengths and positions are one a row; ``others`` are rows whose answer is not the
    journal's; ``places`` are those of the ledger, -1 where a row does not count."""

    tally: Tally
    counts: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    answers: npt.NDArray[np.uint64]
    prompts: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint32]
    places: npt.NDArray[np.int64]
    journaled: npt.NDArray[np.uint64]
    tokens: int
    others: list[Other] = field(default_factory=list)
    lanes: dict[str, tuple[int, int]] = field(default_factory=dict)


class Examiner:
    """Examines parts of one dataset."""

    def __init__(self, plan: Plan, model: Model | None) -> None:
        self._plan = plan
        self.model = model

    def examine(self, part: Part) -> Found:
        files = Files(self._plan.ledgered) if self._plan.ledgered else None
        try:
            return _Pass(self._plan, self.model, self._special, files).over(part)
        finally:
            if files:
                files.close()

    @cached_property
    def _special(self) -> SpecialText | None:
        return SpecialText(self.model.tokenizer.special) if self.model and self._plan.ledgered else None


class _Pass:
    """One pass over the rows of a part."""

    def __init__(self, plan: Plan, model: Model | None, special: SpecialText | None, files: Files | None) -> None:
        self._plan, self._model, self._special, self._files = plan, model, special, files
        self._habits = plan.habits
        self._tally = Tally()
        self._supervised: list[Ids] = []
        self._tested: list[tuple[int, int, Ids]] = []
        self._asked: list[tuple[int, Sent]] = []
        self._columns: list[tuple[int, int, int, int, int, int]] = []
        self._others: list[Other] = []
        self._lanes: dict[str, tuple[int, int]] = {}
        self._tokens = 0

    def over(self, part: Part) -> Found:
        for number, row in enumerate(rows(part)):
            self._tally.rows += 1
            self._tokens += len(row.ids)
            self._row(number, row)
        if self._model:
            texts.check_origin(self._tested, self._habits, self._model, self._tally)
            self._rendered()
        hashes, answered, prompts, lengths, places, journaled = zip(*self._columns, strict=True) or [()] * 6
        return Found(
            self._tally,
            self._counts(),
            np.array(hashes, np.uint64),
            np.array(answered, np.uint64),
            np.array(prompts, np.uint64),
            np.array(lengths, np.uint32),
            np.array(places, np.int64),
            np.array(journaled, np.uint64),
            self._tokens,
            self._others,
            self._lanes,
        )

    def _row(self, number: int, row: Row) -> None:
        tally = self._tally
        sent, place = self._of_run(number, row)
        if row.fault or row.legacy or not len(row.ids):
            self._columns.append((0, 0, 0, 0, place, 0))
            name = "thinking-in-content" if row.thinking else "legacy-text" if row.legacy else "unreadable"
            tally.hit(name, number, remark=row.fault or ("" if row.legacy else "no ids"))
            return
        size = self._habits.vocab_size
        if int(row.ids.min()) < 0 or (size is not None and int(row.ids.max()) >= size):
            wrong = np.flatnonzero((row.ids < 0) | (row.ids >= (size or np.inf)))
            tally.hit("vocabulary", number, row.ids, int(wrong[0]), f"the id {row.ids[wrong[0]]}")
        same = sent is not None and row.ids[: len(sent.prompt)].tobytes() == _as(row.ids, sent.prompt).tobytes()
        begins = len(sent.prompt) if same and sent and sent.answer is not None else None
        told = sum(tally.found.values())
        spans = masks.check_mask(row, number, self._habits, tally, begins)
        sound = told == sum(tally.found.values())
        if not spans:
            self._columns.append((hash_of(row.ids), 0, 0, 0, place, 0))
            return
        flags = self._habits.flags.take(row.ids, mode="clip")
        if begins is not None:
            spans = [(begins, len(row.ids))]  # whatever the mask says of it
        start, end = spans[-1]
        answer = row.ids[start:end]
        journaled = sent.answer if sent else None
        own = journaled is not None and answer.tobytes() == _as(answer, journaled).tobytes()
        limit, said = (sent.limit, sent.finish) if sent and own else (None, None)
        cut = False
        if begins is not None or (sound and sent is None):
            cut = answers.check_end(row, number, spans, flags, self._habits, tally, limit, said)
        if sent and sent.mask is not None and (not same or row.mask.tobytes() != sent.mask.tobytes()):
            tally.hit("row-prompt", number, row.ids, remark="it was passed through, and is another row now")
        if sound:
            self._counted(number, row, spans)
        if sent and journaled is not None:
            self._against(number, row, sent, same)
            if not own:
                self._other(number, row, answer, journaled, place, same)
        if self._model:
            self._read(number, row, spans, flags, cut, sent)
        for a, b in spans:
            self._supervised.append(row.ids[a:b])
        whole = hash_of(row.ids)
        self._columns.append(
            (
                whole,
                hash_of(answer) if end - start >= _LONG else 0,
                hash_of(row.ids[:start]),
                end - start,
                place,
                hash_of(journaled) if journaled is not None else 0,
            )
        )
        if self._model and whole < self._plan.tested * 2**64:
            self._tested.append((number, whole, texts.without_end(row.ids[start:end], flags[start:end])))
        if sent:
            rows_before, cut_before = self._lanes.get(sent.lane, (0, 0))
            self._lanes[sent.lane] = (rows_before + 1, cut_before + cut)

    def _of_run(self, number: int, row: Row) -> tuple[Sent | None, int]:
        """What the run's files say of a row, and its place in the ledger; none where it has no place there."""
        if self._files is None:
            return None, -1
        place = self._files.ledgered.place(row.position, row.turn)
        sent = None if place is None else self._files.sent(place)
        if sent and sent.astray and place is not None:
            remark = f"position {row.position}: its id in the journal, {sent.astray}, is not its prompt's"
            shown = self._tally.shows("journal-line")
            where = self._files.ledgered.line(place) if shown else ""
            self._tally.hit("journal-line", number, row.ids, len(sent.prompt), remark, where)
        if sent is None or place is None or sent.id != row.id:
            self._tally.hit("beyond-cut", number, row.ids, remark=f"position {row.position}, turn {row.turn}")
            return None, -1
        return sent, place

    def _counted(self, number: int, row: Row, spans: list[tuple[int, int]]) -> None:
        """The row's own counts against its mask."""
        whole = len(spans) == 1 and spans[0][1] == len(row.ids)
        if whole and isinstance(row.prompt_tokens, int) and isinstance(row.completion_tokens, int):
            self._tally.look("row-counts")
            if (row.prompt_tokens, row.completion_tokens) != (spans[0][0], len(row.ids) - spans[0][0]):
                said = f"{row.prompt_tokens} and {row.completion_tokens}"
                self._tally.hit("row-counts", number, row.ids, spans[0][0], f"the row says {said}")

    def _against(self, number: int, row: Row, sent: Sent, same: bool) -> None:
        """The row's prompt against the one that was sent, and what that holds."""
        if not same:
            self._tally.hit("row-prompt", number, row.ids, 0)
        if sent.turn:
            return
        if self._model and sent.messages:
            self._asked.append((number, sent))
        found = self._special.found(Conversation(sent.messages, sent.tools)) if self._special else []
        if found:
            self._tally.hit("special-text", number, sent.prompt, remark=", ".join(found))

    def _other(self, number: int, row: Row, answer: Ids, journaled: Ids, place: int, same: bool) -> None:
        """An answer that is not the journal's; which check that is, is found out once all rows are known."""
        ids, other = answer.tolist(), journaled.tolist()
        decode = self._model.tokenizer.decode if self._model else None
        if not same and ids == other[-len(ids) :]:
            return  # the prompt is another one, or the mask begins elsewhere: both are told
        same_text = bool(decode and self._known(answer) and decode(ids) == decode(other))
        first = next((n for n, (a, b) in enumerate(zip(ids, other, strict=False)) if a != b), min(len(ids), len(other)))
        at = len(row.ids) - len(ids) + first
        shown = row.ids[max(0, at - WINDOW // 2) :][:WINDOW].tolist()
        self._others.append(Other(number, hash_of(answer), shown, at, place, same_text))

    def _known(self, ids: Ids) -> bool:
        size = self._habits.vocab_size
        return int(ids.min(initial=0)) >= 0 and (size is None or int(ids.max(initial=0)) < size)

    def _read(
        self, number: int, row: Row, spans: list[tuple[int, int]], flags: Flags, cut: bool, sent: Sent | None
    ) -> None:
        """The checks that need the tokenizer."""
        model, tally = self._model, self._tally
        assert model is not None
        if not self._known(row.ids):
            return
        texts.check_spelling(row, number, flags, model, tally)
        for n, span in enumerate(spans):
            last = n == len(spans) - 1
            texts.check_bytes(row, number, span, flags, model, tally)
            texts.check_parts(
                row,
                number,
                span,
                flags,
                model,
                tally,
                cut=cut and last,
                thinks=self._habits.thinks,
                tools=sent.tools or [] if sent else None,
            )

    def _rendered(self) -> None:
        """The prompts of first turns, rendered once more."""
        model = self._model
        assert model is not None
        written: list[str] = []
        for number, sent in self._asked:
            try:
                written.append(model.dialect.text(Conversation(sent.messages, sent.tools)))
            except RenderError as error:
                written.append("")
                self._tally.hit("prompt-rendered", number, sent.first_prompt, remark=error.message)
        again = model.tokenizer.encode(written)
        for (number, sent), text, ids in zip(self._asked, written, again, strict=True):
            if text and ids != sent.first_prompt.tolist():
                pairs = zip(ids, sent.first_prompt.tolist(), strict=False)
                at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(ids), len(sent.first_prompt)))
                self._tally.hit("prompt-rendered", number, sent.first_prompt, at, f"from id {at} on")

    def _counts(self) -> npt.NDArray[np.int64]:
        if not self._supervised:
            return np.zeros(1, np.int64)
        size = self._habits.vocab_size
        ids = np.concatenate(self._supervised)
        ids = ids[(ids >= 0) & (ids < (size or 1 << 20))]
        return np.bincount(ids.astype(np.int64), minlength=size or 0)


def _as(like: Ids, ids: Ids) -> Ids:
    """The ids with the width of others, so that equal ones have equal bytes."""
    return ids.astype(like.dtype, copy=False)
