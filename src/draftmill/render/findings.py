"""What is found out about a model before a run, and what it means for the data."""

from enum import StrEnum

import msgspec


class Concern(StrEnum):
    """Which datasets a finding matters to."""

    ALL = "all"
    TOOLS = "tools"  # those with tools or tool calls
    TURNS = "turns"  # those with earlier answers


class Finding(msgspec.Struct, frozen=True):
    """``code`` for scripts, ``message`` what was seen, ``meaning`` what it does to the data: one sentence each."""

    code: str
    message: str
    meaning: str
    concern: Concern = Concern.ALL


def tools_as_text(rows: int, of: int, first: str) -> Finding:
    """A dataset whose tools stand in system prompts, for a model with a form of its own; ``first`` is a row's place."""
    return Finding(
        "tools-as-text",
        f"{rows} of {of} rows have their tools as text in the system prompt, the first at {first}",
        "the model gets them in a form that it was not trained on; `prepare --native-tools` makes them its own",
        Concern.TOOLS,
    )
