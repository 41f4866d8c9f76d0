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
