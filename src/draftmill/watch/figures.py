"""What is known of a run at one moment: plain figures, the same for the monitor, for the report and for scripts.

Every type here is a frozen msgspec struct and encodes to JSON as it is. Times are Unix seconds, rates tokens a second,
shares are from 0 to 1. None means that nobody knows; it is never written as 0.
"""

from enum import StrEnum

import msgspec

_LEAST_DISK = 1 << 30  # bytes that are free, whatever a run still needs


class Phase(StrEnum):
    """What a run is doing. ``gone``: it did not say that it ended, and gives no sign of life any more."""

    NEW = "not started"
    PREPARING = "preparing"
    RUNNING = "running"
    PAUSED = "paused"
    GONE = "gone"
    ENDED = "ended"
    FILES = "files only"  # a folder that no run of this version began: its lines are all that is known


class Lengths(msgspec.Struct, frozen=True):
    """How long answers (or prompts) are, in tokens; percentiles are exact up to 64 tokens and to 1.6 % above."""

    count: int
    tokens: int
    mean: float
    p10: float
    p50: float
    p90: float
    p99: float
    longest: int


class Thinking(msgspec.Struct, frozen=True):
    """Of a sample of answers: the share of their tokens that is thinking, and how many never left it."""

    answers: int
    share: float
    unclosed: int


class Rates(msgspec.Struct, frozen=True):
    """Generated tokens a second: over the last 10 s, 5 min, since the last start, and over all starts together."""

    last_10s: float | None = None
    last_5min: float | None = None
    start: float | None = None
    run: float | None = None


class Eta(msgspec.Struct, frozen=True):
    """Seconds until nothing is owed: the likeliest, and a range that holds nine times in ten.

    ``remaining`` are the tokens that are still to be generated, as far as that can be foreseen.
    """

    seconds: float
    low: float
    high: float
    remaining: float


class Unread(msgspec.Struct, frozen=True):
    """Lines of a file that were not understood: how many, the first of them, and why. Never taken for zero."""

    file: str
    lines: int
    first: int
    reason: str


class ErrorReason(msgspec.Struct, frozen=True):
    """One reason of error rows, digits in it made equal: how often, and one of them whole."""

    kind: str
    reason: str
    count: int
    sample: str
    where: str


class DatasetFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One dataset, or with name "all" all of them together.

    The six states add up to ``prompts`` (docs/run-folder.md); they are None in a folder whose prompts are not known.
    ``rows`` are answers (each turn is one) and passed-through rows inside the budget's cut, ``counted`` their tokens
    as the budget counts them, ``written`` how many rows the training file holds for sure. ``answers``, ``generated``
    and ``prompt_tokens`` are those of all whole answers, surplus included; ``growing`` are tokens of answers that have
    not ended. ``older_shape`` answers stand in lines of other versions: their tokens are among ``generated``, and they
    are rows only where the prompts are not known. ``limit`` is what the recipe says now, ``cut_at`` the lowest and the
    highest limit that cut an answer. ``lost``: its journal has no answer, although there were some.
    ``altered``: what is to be said of answers that were changed after their rows were built, and what to do.
    """

    name: str
    lane: str = ""
    limit: int | None = None
    prompts: int | None = None
    rows: int = 0
    written: int | None = None
    counting: int | None = None
    surplus: int | None = None
    passed_through: int | None = None
    errors: int = 0
    owed: int | None = None
    not_needed: int | None = None
    budget: int | None = None
    budget_counts: str = "generated"
    counted: int = 0
    exhausted: bool = False
    answers: int = 0
    generated: int = 0
    prompt_tokens: int = 0
    growing: int = 0
    growing_answers: int = 0
    finishes: dict[str, int] = {}
    truncated: float | None = None
    cut_at: tuple[int, int] | None = None
    lengths: Lengths | None = None
    prompt_lengths: Lengths | None = None
    thinking: Thinking | None = None
    continued: int = 0
    redrawn: int = 0
    strays: int = 0
    lost: bool = False
    altered: tuple[str, str] | None = None
    older_shape: int = 0
    torn: bool = False
    rates: Rates = Rates()
    eta: Eta | None = None
    error_reasons: list[ErrorReason] = []
    recent_errors: int = 0
    recent_answers: int = 0
    unread: list[Unread] = []

    @property
    def done(self) -> float | None:
        """The share of the work that is done: of the budget, or of the prompts where that is what ends it."""
        if not self.prompts:
            return None
        settled = 1 - self.owed / self.prompts if self.owed is not None else None
        if self.owed == 0:
            return 1.0
        share = self.counted / self.budget if self.budget else settled
        return None if share is None else min(0.99, share)

    @property
    def error_share(self) -> float:
        """Of the prompts that were sent and ended, as `draftmill run` counts it."""
        settled = (self.rows if self.counting is None else self.counting) + self.errors
        return self.errors / settled if settled else 0.0


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One engine as it was last seen, at ``time``; ``in_flight`` and ``cap`` are ours, the rest is the server's word.

    ``source``: ``run`` (the run's own samples) or the path of a server log. ``kept``: the log of one that draftmill
    itself starts again when it dies. ``auto``: whether a governor finds its cap.
    ``retracted`` counts requests thrown back since the server's start, ``retractions`` those of the last minute.
    ``base`` and ``each`` fit the seconds of a decode step as ``base + each · running``, where loads were different
    enough to tell. ``history`` holds (time, running, queued, KV use, tokens a second).
    """

    name: str
    source: str = "run"
    time: float | None = None
    state: str = "open"
    why: str = ""
    kept: str = ""
    running: int | None = None
    queued: int | None = None
    in_flight: int | None = None
    cap: int | None = None
    cap_why: str = ""
    auto: bool | None = None
    slots: int | None = None
    kv_used: int | None = None
    kv_total: int | None = None
    kv_use: float | None = None
    rate: float | None = None
    mean_rate: float | None = None
    retracted: int | None = None
    retractions: float | None = None
    base: float | None = None
    each: float | None = None
    history: list[tuple[float, int, int, float | None, float | None]] = []

    def gain(self) -> float | None:
        """How many per cent more tokens a second one per cent more requests would bring, by the fit."""
        if self.base is None or self.each is None or not self.running:
            return None
        step = self.base + self.each * self.running
        return self.base / step if step > 0 else None


class Event(msgspec.Struct, frozen=True):
    """One line of ``events.jsonl``, its time in Unix seconds."""

    time: float
    kind: str
    subject: str
    message: str


class Disk(msgspec.Struct, frozen=True):
    """Bytes that are free where the run lies, and that the rest of it will take as far as that is known."""

    free: int
    needed: int | None = None

    @property
    def nearly_full(self) -> bool:
        return self.free < _LEAST_DISK


class LaneFigures(msgspec.Struct, frozen=True):
    """A lane as the recipe and the control file have it; ``concurrency`` is None where it is ``auto``."""

    name: str
    limit: int
    concurrency: int | None = None


class Recent(msgspec.Struct, frozen=True):
    """A completion that came lately, by its place: ``stats.decode`` reads it."""

    dataset: str
    position: int
    turn: int
    tokens: int
    finish: str
    offset: int
    older_shape: bool = False


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment. ``total`` is all datasets together; ``server_rate`` is what the engines say together,
    ``total.rates`` what came here. ``started`` is the last start's time, ``seen`` the last sign of life; ``pause`` is
    what the control file says; ``held``: whether the process of the last start lives, ``command`` how that was
    called, as far as it is known. ``died``: what ended the last start before it generated anything, where it said
    so. ``again`` is the command that it
    goes on with, None where its ``run.yaml`` cannot be read, without which no start goes on."""

    path: str
    again: str | None = "the same `draftmill run` command"
    time: float
    phase: Phase
    started: float | None = None
    seen: float | None = None
    ending: str = ""
    died: str = ""
    pause: bool = False
    held: bool | None = None
    command: str = ""
    datasets: list[DatasetFigures]
    total: DatasetFigures
    engines: list[EngineFigures] = []
    lanes: list[LaneFigures] = []
    server_rate: float | None = None
    events: list[Event] = []
    recent: list[Recent] = []
    disk: Disk | None = None
    max_error_share: float = 0.05
    control_fault: str = ""
    unread: list[Unread] = []
