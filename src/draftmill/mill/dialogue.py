"""Conversations turn by turn (rule 8 of the design): what follows an answer, and the prompt of the next turn.

Each generation is a row of its own. The prompt of a turn is what the chat template renders for the serving stack from
the turns before it: generated answers, read by token id (``served``), or the dataset's own (``recorded``). A recorded
tool result belongs to the call that it was recorded for: it is given to a generated answer only where that makes the
very same calls, else the conversation ends there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from draftmill.errors import StorageError
from draftmill.journal.prompts import PromptTurns
from draftmill.recipe import History
from draftmill.records import Completion, Conversation, Ended, Finish, Message, Tool, Turn
from draftmill.render.answer import equal
from draftmill.render.dialect import Dialect
from draftmill.render.parts import Parts
from draftmill.render.tokenizer import Tokenizer


@dataclass
class Talk:
    """One conversation under way: the ``messages`` that its ``turn`` was or will be rendered from, and what the dataset
    has for the turns ``later``."""

    messages: list[Message]
    tools: list[Tool] | None
    later: list[Turn]
    turn: int = 0

    @classmethod
    def of(cls, prompt: PromptTurns) -> "Talk":
        """A conversation at its first turn."""
        return cls(prompt.messages, prompt.tools, prompt.later)

    @property
    def over(self) -> bool:
        """Whether the dataset has nothing behind this turn."""
        return self.turn >= len(self.later)


@dataclass(frozen=True)
class Dialogue:
    """The conversations of one dataset: what a turn is made of. Pure, but for what happens to a ``Talk``."""

    dialect: Dialect
    tokenizer: Tokenizer
    history: History = "served"

    def answered(self, talk: Talk, prompt_ids: list[int], output_ids: list[int], finish: Finish) -> Ended | None:
        """Take in the answer of the turn: the talk is then at its next one. Returns why it ends instead."""
        turn = talk.later[talk.turn]
        if self.history == "recorded":
            said, then = turn.recorded, turn.then
        else:
            parts = self.dialect.parts(output_ids, prompt_ids, talk.tools)
            if reason := _unfit(parts, finish):
                return reason
            message = self.dialect.answer(parts, talk.messages).message
            followed = behind(message, turn)
            if isinstance(followed, Ended):
                return followed
            said, then = [message], followed
        talk.messages = [*talk.messages, *said, *then]
        talk.turn += 1
        return None

    def prompt(self, talk: Talk) -> list[int]:
        """The prompt's ids of the turn that the talk is at. Raises RenderError."""
        text = self.dialect.text(Conversation(talk.messages, talk.tools))
        return self.tokenizer.encode([text])[0]


def replay(dialogue: Dialogue, talk: Talk, completions: Iterable[Completion], prompt_ids: list[int]) -> None:
    """Bring a conversation to where its journaled turns left it; ``prompt_ids`` are those of the first."""
    for completion in completions:
        ids = completion.prompt_ids if completion.turn else prompt_ids
        if dialogue.answered(talk, ids, completion.output_ids, completion.finish_reason):
            raise StorageError(f"conversation {completion.id}: its journal goes on where it ends by today's reading")


def _unfit(parts: Parts, finish: Finish) -> Ended | None:
    """Why nothing can follow this answer, whatever was recorded."""
    if finish is Finish.LENGTH:
        return Ended.TRUNCATED
    if parts.thinking_unclosed:
        return Ended.THINKING
    if not all(call.usable for call in parts.calls):
        return Ended.UNREADABLE
    return None


def behind(message: Message, turn: Turn) -> list[Message] | Ended:
    """What was recorded behind the answer that this one takes the place of, tool results with the ids of its own calls
    and in their order; or why that does not belong behind this one."""
    results = [m for m in turn.then if m["role"] == "tool"]
    made, recorded = message.get("tool_calls") or [], [c for m in turn.recorded for c in m.get("tool_calls") or ()]
    if not results:
        return Ended.UNRECORDED if made else turn.then
    if not made:
        return Ended.NO_CALLS
    partners = _partners(made, recorded)
    if partners is None or len(results) != len(made):
        return Ended.OTHER_CALLS
    places = [partners[number] for number in _numbers(results, recorded)]
    order = sorted(range(len(results)), key=places.__getitem__)
    answered = [{**results[n], "tool_call_id": made[places[n]]["id"]} for n in order]
    return answered + [m for m in turn.then if m["role"] != "tool"]


def _partners(made: list[Message], recorded: list[Message]) -> list[int] | None:
    """For each recorded call the generated one that is the same by name and by arguments as values; None where they do
    not match one to one."""
    free = list(range(len(made)))
    partners = []
    for call in recorded:
        match = next((n for n in free if equal(made[n]["function"], call["function"])), None)
        if match is None:
            return None
        free.remove(match)
        partners.append(match)
    return None if free else partners


def _numbers(results: list[Message], recorded: list[Message]) -> list[int]:
    """Which recorded call each result is of: by its id, or in the order of the calls where ids do not say."""
    order = {call["id"]: n for n, call in enumerate(recorded) if call.get("id")}
    numbers = [order.get(result.get("tool_call_id", ""), -1) for result in results]
    return numbers if sorted(numbers) == list(range(len(results))) else list(range(len(results)))
