"""What is found in a run's figures: a verdict, how pressing it is, and what to do about it."""

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """What is found."""

    HEALTHY = "healthy"
    KV_BOUND = "KV-bound"
    COMPUTE_BOUND = "compute-bound"
    SLOT_BOUND = "slot-bound"
    CLIENT_BOUND = "client-bound"
    SHARED = "shared"
    STARVED = "starved"
    GROWING = "growing"
    TAIL = "tail"
    RETRACTIONS = "retraction thrash"
    ENGINE_DOWN = "engine down"
    STALLED = "stalled"
    DISK = "short of disk"
    OVERSHOOT = "budget overshot"
    OUT_OF_REACH = "budget out of reach"
    TRUNCATED = "answers truncated"
    ERRORS = "error burst"
    UNREAD = "not understood"
    PAUSED = "paused"
    GONE = "gone"
    ENDED = "ended"
    STARTING = "starting"


class Level(StrEnum):
    """How pressing a finding is."""

    BAD = "bad"
    WARN = "warn"
    INFO = "info"
    GOOD = "good"


class Finding(msgspec.Struct, frozen=True):
    """One thing that is so, and what to do about it. ``subject`` is an engine, a dataset or ``run``."""

    verdict: Verdict
    level: Level
    subject: str
    message: str
    advice: str = ""
