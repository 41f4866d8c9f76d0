"""How many answers of a run, or of a text dataset, would come back as other ids than were generated.

``render.drift`` says it of one answer. Of a run the ids are known. Of a text dataset they are not: an answer counts as
if its model had written this text just as its tokenizer cuts text, so the true share is higher as a rule.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from statistics import median_low
from typing import NamedTuple

import msgspec

from draftmill import __version__
from draftmill.errors import RenderError
from draftmill.ids import encode
from draftmill.journal.files import replacing
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.prompts import read_turns
from draftmill.journal.reader import completion_at
from draftmill.ledger.standing import Standing
from draftmill.mill.dialogue import Dialogue, Talk
from draftmill.records import Conversation, Message
from draftmill.render.dialect import Dialect
from draftmill.render.drift import Drift, Reason, Unjudged, as_generated, drift
from draftmill.render.tokenizer import Tokenizer
from draftmill.sources.history import Recorded, is_blank

SAMPLE = 256  # answers of each dataset that are looked at after a start: a fair sample, since the order is a hash
_TOKENS = 500_000  # of prompts and answers together, after which no further one of these is looked at: some 3 s of CPU
_EXAMPLES = 2  # of each reason

Tell = Callable[[int], None]  # hears now and then how many answers were looked at


class Example(msgspec.Struct, frozen=True):
    """One answer that drifts. ``at`` is the index of its first id that differs, negative where that is in the prompt;
    ``generated`` and ``rendered`` are the texts from there, a few ids long."""

    where: str
    reason: Reason
    at: int | None
    generated: str
    rendered: str


class Figure(msgspec.Struct, frozen=True):
    """How many ``answers`` were looked at, how many ``drifted`` and why.

    ``before``: of these, answers whose prompt comes back otherwise already. ``median``: of the others, the index of the
    first id that differs. ``unjudged``: answers of which it cannot be said, by reason; they are not among ``answers``.
    """

    answers: int
    drifted: int
    reasons: dict[str, int]
    before: int
    median: int | None
    examples: list[Example]
    unjudged: dict[str, int] = {}

    @property
    def share(self) -> float:
        return self.drifted / self.answers if self.answers else 0.0


class Count:
    """Counts answers up to a figure."""

    def __init__(self) -> None:
        self.answers = 0
        self._reasons: Counter[Reason] = Counter()
        self._unjudged: Counter[Unjudged] = Counter()
        self._first = array("q")
        self._examples: list[Example] = []

    def add(self, where: str, found: Drift) -> None:
        self.answers += 1
        if found.reason is Reason.NONE:
            return
        self._reasons[found.reason] += 1
        if found.position is not None:
            self._first.append(found.position)
        if self._reasons[found.reason] <= _EXAMPLES:
            example = Example(where, found.reason, found.position, found.generated, found.rendered)
            self._examples.append(example)

    def leave(self, why: Unjudged) -> None:
        self._unjudged[why] += 1

    def figure(self) -> Figure:
        inside = [position for position in self._first if position >= 0]
        return Figure(
            answers=self.answers,
            drifted=self._reasons.total(),
            reasons={str(reason): number for reason, number in self._reasons.most_common()},
            before=len(self._first) - len(inside),
            median=median_low(inside) if inside else None,
            examples=self._examples,
            unjudged={str(why): number for why, number in self._unjudged.most_common()},
        )


class _Answer(NamedTuple):
    """An answer of a run, and the conversation that its prompt was rendered from."""

    where: str
    ids: list[int]
    prompt_ids: list[int]
    conversation: Conversation


def of_run(
    folder: DatasetFolder,
    standing: Standing,
    dialogue: Dialogue,
    *,
    rows: int | None = None,
    tokens: int | None = None,
    tell: Tell = lambda _: None,
) -> Figure:
    """The figure of a dataset's first counting rows, in the order of positions and turns: at most so many ``rows``, and
    no further one once so many ``tokens`` of prompts and answers were looked at."""
    count = Count()
    seen = 0
    for answer in islice(_answers(folder, standing, dialogue), rows):
        if tokens is not None and seen >= tokens:
            break
        seen += len(answer.prompt_ids) + len(answer.ids)
        ids, prompt_ids, conversation = answer.ids, answer.prompt_ids, answer.conversation
        count.add(answer.where, drift(ids, prompt_ids, conversation, dialogue.dialect, dialogue.tokenizer))
        tell(count.answers)
    return count.figure()


def _answers(folder: DatasetFolder, standing: Standing, dialogue: Dialogue) -> Iterator[_Answer]:
    """Every counting answer in order, the turns of a conversation from its first on."""
    counting = ((position, offsets) for position, offsets in standing.counting() if offsets)
    due = next(counting, None)
    if due is None:
        return
    with folder.journal.open("rb") as journal:
        for position, prompt in enumerate(read_turns(folder.prompts)):
            if position != due[0]:
                continue
            talk = Talk.of(prompt)
            for turn, offset in enumerate(due[1]):
                completion = completion_at(journal, offset)
                ids, prompt_ids = completion.output_ids, completion.prompt_ids if turn else prompt.prompt_ids
                where = f"position {position}" + (f", turn {turn}" if len(due[1]) > 1 else "")
                yield _Answer(where, ids, prompt_ids, Conversation(talk.messages, talk.tools))
                if turn + 1 < len(due[1]):
                    dialogue.answered(talk, prompt_ids, ids, completion.finish_reason)
            due = next(counting, None)
            if due is None:
                return


class DriftFile(msgspec.Struct, frozen=True):
    """``drift.json``: the figure of a dataset's sample, and what it was worked out of, by which version.

    ``digest`` is of where the sample's lines stand in the journal, which is only ever appended to.
    """

    draftmill: str
    sample: int
    prompts_bytes: int
    digest: str
    figure: Figure


def sampled(
    folder: DatasetFolder, standing: Standing, dialogue: Callable[[], Dialogue], *, renew: bool
) -> Figure | None:
    """The figure of a dataset's sample, from its file where that is of the answers as they stand.

    Else it is worked out and written where ``renew`` says so. None where there is none, or no answer.
    """
    places = list(islice(((position, offsets) for position, offsets in standing.counting() if offsets), SAMPLE))
    if not places:
        return None
    size, digest = folder.prompts.stat().st_size, hashlib.blake2b(repr(places).encode(), digest_size=16).hexdigest()
    known = _read(folder)
    if known and (known.draftmill, known.sample, known.prompts_bytes, known.digest) == (
        __version__,
        SAMPLE,
        size,
        digest,
    ):
        return known.figure
    if not renew:
        return None
    figure = of_run(folder, standing, dialogue(), rows=SAMPLE, tokens=_TOKENS)
    with replacing(folder.drift) as temporary:
        file = DriftFile(__version__, SAMPLE, size, digest, figure)
        temporary.write_bytes(msgspec.json.format(encode(file), indent=2) + b"\n")
    return figure


def _read(folder: DatasetFolder) -> DriftFile | None:
    try:
        return msgspec.json.decode(folder.drift.read_bytes(), type=DriftFile)
    except (FileNotFoundError, msgspec.DecodeError, msgspec.ValidationError):
        return None


def of_recordings(
    recordings: Iterable[tuple[str, Recorded]], dialect: Dialect, tokenizer: Tokenizer, *, tell: Tell = lambda _: None
) -> Figure:
    """The figure of recorded conversations, each with its place: all answers of each are looked at."""
    count = Count()
    for where, recorded in recordings:
        messages, tools = recorded.prompt.messages + recorded.later, recorded.prompt.tools
        for number, message in enumerate(messages):
            if message["role"] == "assistant" and not is_blank(message):
                history = Conversation(messages[:number], tools)
                found = _of_recorded(history, message, dialect, tokenizer)
                if isinstance(found, Unjudged):
                    count.leave(found)
                else:
                    count.add(f"{where}, message {number + 1}", found)
                    tell(count.answers)
    return count.figure()


def _of_recorded(history: Conversation, message: Message, dialect: Dialect, tokenizer: Tokenizer) -> Drift | Unjudged:
    if not history.messages or history.messages[-1]["role"] not in ("user", "tool"):
        return Unjudged.NO_QUESTION
    try:
        (prompt_ids,) = tokenizer.encode([dialect.text(history)])
    except RenderError:
        return Unjudged.PROMPT
    ids = as_generated(message, prompt_ids, dialect, tokenizer)
    return ids if isinstance(ids, Unjudged) else drift(ids, prompt_ids, history, dialect, tokenizer)
