"""What is found out about a model before a run, and what it means for the data."""

from enum import StrEnum

import msgspec


class Concern(StrEnum):
    """Which datasets a finding matters to."""

    ALL = "all"
    TOOLS = "tools"  # those with tools or tool calls
    TURNS = "turns"  # those with earlier answers


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
    """``message`` is what was seen, ``meaning`` what it does to the data: one sentence each, without an end."""

    code: Code
    message: str
    meaning: str
    concern: Concern = Concern.ALL


def tools_as_text(rows: int, of: int, first: str) -> Finding:
    """A dataset whose tools stand in system prompts, for a model with a form of its own; ``first`` is a row's place."""
    return Finding(
        Code.TOOLS_AS_TEXT,
        f"{rows} of {of} rows have their tools as text in the system prompt, the first at {first}",
        "the model gets them in a form that it was not trained on; `prepare --native-tools` makes them its own",
        Concern.TOOLS,
    )
