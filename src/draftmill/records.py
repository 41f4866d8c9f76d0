"""The data that flows through the mill: conversation, prompt, completion, failure, row.

Every type here is a msgspec struct, and each of those that stand in a run's files (prompts, journal, errors, rows)
is one JSON line there, field for field. Lists of ids are token ids of the target's vocabulary.
"""

from enum import StrEnum
from typing import Any

import msgspec

Message = dict[str, Any]  # one OpenAI chat message: role, content, and where they apply tool_calls, tool_call_id, name
Tool = dict[str, Any]  # one OpenAI tool: {"type": "function", "function": {name, description, parameters}}


class Where(msgspec.Struct, frozen=True):
    """The place of one source row: a file (or hub dataset) and its line (or row), counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a recorded conversation goes on after an answer: ``recorded`` are the assistant messages that stand in that
    answer's place, ``then`` those behind them that lead to the next answer."""

    then: list[Message]
    recorded: list[Message] = []


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One prompt in the OpenAI schema: ends with the last user or tool message, with no answer after it.

    ``later`` are the turns that follow its answer, where they are to be generated too.
    """

    messages: list[Message]
    tools: list[Tool] | None = None
    later: list[Turn] = []


class SourceRow(msgspec.Struct, frozen=True):
    """A row of a dataset that could be read."""

    where: Where
    conversation: Conversation


class TokenizedRow(msgspec.Struct, frozen=True):
    """A row that is tokenized already: a training row as it is, for which nothing is generated.

    ``loss_mask`` has the length of ``input_ids``, and is 1 at least once.
    """

    where: Where
    input_ids: list[int]
    loss_mask: list[int]


class UnreadRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of a dataset that could not be read, and why: data, never a crash.

    ``lost``: nor can anything behind it in its file, and nobody knows how many rows that would be.
    """

    where: Where
    reason: str
    lost: bool = False


class FilteredRow(msgspec.Struct, frozen=True):
    """A row that the recipe's ``where`` leaves out, by the value of this column."""

    where: Where
    column: str


class Prompt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One generation to make: a line of ``prompts.jsonl``.

    ``id`` is a content hash (dataset, canonical conversation, occurrence); ``position`` is the conversation's rank in
    its dataset's order, from 0; ``turn`` counts the generations inside one conversation, from 0, and ``later`` is what
    the dataset has for those after the first. ``where`` is the source row. A conversation that the template refuses has
    a ``fault`` and no ids. One with a ``loss_mask`` is a row that was tokenized already: ``prompt_ids`` are all of its
    ids, it has no messages, and it is passed through.
    """

    id: str
    position: int
    lane: str
    messages: list[Message]
    prompt_ids: list[int]
    tools: list[Tool] | None = None
    where: str = ""
    turn: int = 0
    fault: str = ""
    later: list[Turn] = []
    loss_mask: list[int] | None = None


class Finish(StrEnum):
    """How a generation ended. ``stop``: its last id is a stop id. ``length``: the token limit cut it.

    ``abort``: we ended it early; what there is of it is a beginning, to be continued.
    """

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class Ended(StrEnum):
    """Why a conversation ends before its recording: what its answer is, so that nothing recorded fits behind it."""

    TRUNCATED = "truncated"
    THINKING = "thinking unclosed"
    UNREADABLE = "unreadable call"
    OTHER_CALLS = "other calls"
    NO_CALLS = "no calls"
    UNRECORDED = "unrecorded calls"


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the engine returned for one prompt: a line of the journal.

    ``output_ids`` holds every generated id, a stop token included; ``limit`` is the token limit of the whole answer;
    ``matched_stop`` the id that ended it; ``seconds`` the wall time of the call that answered, queueing included.
    A ``partial`` line holds the beginning of an answer that is still owed; the whole answer follows in a line of its
    own, which says how many of its ids were ``continued`` from earlier calls. ``redrawn``: an earlier call may have
    generated some of this answer, and nothing of that is known.
    """

    id: str
    position: int
    turn: int
    output_ids: list[int]
    prompt_tokens: int
    completion_tokens: int
    finish_reason: Finish
    matched_stop: int | None
    cached_tokens: int | None
    seconds: float
    engine: str
    limit: int
    partial: bool = False
    continued: int = 0
    redrawn: bool = False
    prompt_ids: list[int] = []
    more: bool = False
    ended: Ended | None = None


class Failure(msgspec.Struct, frozen=True):
    """A prompt that could not be generated: a line of ``errors.jsonl``. ``kind`` names the fault."""

    id: str
    position: int
    turn: int
    kind: str
    reason: str
    attempts: int
    engine: str | None
    where: str


class Row(msgspec.Struct, frozen=True):
    """One training example. ``loss_mask`` has the length of ``input_ids``: 0 on the prompt, 1 on what was generated.

    One that was passed through has no ``finish_reason``; its ``completion_tokens`` are those that its mask supervises.
    """

    input_ids: list[int]
    loss_mask: list[int]
    id: str
    position: int
    turn: int
    dataset: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: Finish | None
