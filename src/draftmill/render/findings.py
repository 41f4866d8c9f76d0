"""What is found out about a model before a run, what it means for the data, and which data."""

from enum import StrEnum
from itertools import pairwise

import msgspec

from draftmill.records import Conversation


class Concern(StrEnum):
    """Which datasets a finding matters to."""

    ALL = "all"
    TOOLS = "tools"  # those with tools
    CALLS = "calls"  # those with earlier tool calls, recorded or generated
    ANSWERS = "answers"  # those with earlier answers, recorded or generated
    TURNS = "turns"  # those that are generated turn by turn
    SYSTEM = "system"  # those with system prompts
    ALTERNATION = "alternation"  # those with two user messages in a row


class Code(StrEnum):
    """What can be found out; ``docs/models.md`` has a line for each."""

    MARKER_SPLIT = "marker-split"
    THINKING_OPENED = "thinking-opened"
    THINKING_CLOSED = "thinking-closed"
    TOOLS_IGNORED = "tools-ignored"
    TOOLS_REFUSED = "tools-refused"
    TOOLS_AS_TEXT = "tools-as-text"
    CALLS_IGNORED = "calls-ignored"
    CALLS_REFUSED = "calls-refused"
    PARALLEL_IGNORED = "parallel-ignored"
    PARALLEL_REFUSED = "parallel-refused"
    ARGUMENTS_AS_TEXT = "arguments-as-text"
    REASONING_DROPPED = "reasoning-dropped"
    REASONING_DROPPED_IN_LOOP = "reasoning-dropped-in-loop"
    REASONING_KEPT = "reasoning-kept"
    REASONING_NEEDED = "reasoning-needed"
    TURNS_MUST_ALTERNATE = "turns-must-alternate"
    SYSTEM_REFUSED = "system-refused"
    DATE_INSERTED = "date-inserted"


class Finding(msgspec.Struct, frozen=True):
    """``message`` is what was seen, ``meaning`` what it does to the data, ``advice`` what to do where something can be
    done: one sentence each, without an end. ``recorded`` is what it means instead where no answer is history of a later
    one, because there is none, or the history is the dataset's own."""

    code: Code
    message: str
    meaning: str
    concern: Concern = Concern.ALL
    advice: str = ""
    recorded: str = ""


def concerns(conversation: Conversation) -> set[Concern]:
    """Which findings matter to a conversation, its later turns included. Every conversation is of concern to ALL."""
    runs = [conversation.messages, *(turn.then for turn in conversation.later)]
    said = [*(m for run in runs for m in run), *(m for turn in conversation.later for m in turn.recorded)]
    roles = {message["role"] for message in said}
    found = {Concern.ALL}
    if conversation.tools:
        found.add(Concern.TOOLS)
    recorded = "tool" in roles or any(message.get("tool_calls") for message in said)
    if recorded or (conversation.tools and conversation.later):
        found.add(Concern.CALLS)
    if conversation.later or "assistant" in roles:
        found.add(Concern.ANSWERS)
    if conversation.later:
        found.add(Concern.TURNS)
    if "system" in roles:
        found.add(Concern.SYSTEM)
    if any(a["role"] == b["role"] == "user" for run in runs for a, b in pairwise(run)):
        found.add(Concern.ALTERNATION)
    return found


def tools_as_text(rows: int, of: int, first: str, *, lifted: bool = False) -> Finding:
    """A dataset whose tools stand in system prompts, for a model with a form of its own; ``first`` is a row's place.

    ``lifted``: the others were lifted out, and of these some definitions cannot be read.
    """
    still = "still have" if lifted else "have"
    return Finding(
        Code.TOOLS_AS_TEXT,
        f"{rows} of {of} prompts {still} their tools as text in the system prompt, the first at {first}",
        "the model gets them in a form that it was not trained on",
        Concern.TOOLS,
        "some of their definitions are not JSON: mend the rows, or leave them out"
        if lifted
        else "`--native-tools` (`native_tools: true` in the recipe) makes them its own, in a new run",
    )
