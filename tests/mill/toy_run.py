"""A toy server in virtual time that drives the real ``Stream`` and the real ``Standing``: what counts, and what is left
over, for answers of known distribution. No HTTP, no files but the prompts."""

import heapq
import random
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

from draftmill.ids import encode
from draftmill.journal.folder import DatasetFolder
from draftmill.journal.reader import Entry
from draftmill.ledger.order import conversation_id
from draftmill.ledger.standing import Standing
from draftmill.mill.stream import Stream
from draftmill.recipe import Dataset, Sampling
from draftmill.records import Completion, Finish, Prompt
from tests.mill.world import World


@dataclass(frozen=True)
class Stop:
    """Stops after these shares of the budget, and what becomes of an answer in flight.

    ``keep``: continued from its last token, so that its length stays what it was drawn to be. ``redraw``: drawn
    afresh. ``checkpoint``: continued from the last checkpoint, one every ``every`` seconds, the rest drawn anew.
    """

    kind: str
    every: float = 30.0
    after: tuple[float, ...] = (0.25, 0.5, 0.75)


@dataclass
class Outcome:
    """One run: what counts, what was generated beyond it, its seconds, and how many times those of a full server."""

    rows: int
    tokens: int
    surplus: int
    seconds: float
    stretch: float


@dataclass
class Sample:
    """The outcomes of many seeds, against the population."""

    world: World
    outcomes: list[Outcome] = field(default_factory=list)

    def z(self) -> float:
        """How many standard errors the counting rows' mean lies above the population's.

        The sum of tokens − rows × mean has expectation 0 for a prefix that ends by what stands in it (Wald), and
        variance rows × variance; the plain mean of a prefix would be a little too high, since it ends with a long one.
        """
        mean, deviation = self.world.moments()
        rows = sum(o.rows for o in self.outcomes)
        return (sum(o.tokens for o in self.outcomes) - rows * mean) / (deviation * sqrt(rows))

    def bias(self) -> float:
        """The counting rows' mean over the population's, less 1."""
        return sum(o.tokens for o in self.outcomes) / sum(o.rows for o in self.outcomes) / self.world.moments()[0] - 1

    def surplus(self) -> list[float]:
        """Surplus as a share of the budget, ascending."""
        return sorted(o.surplus / self.world.budget for o in self.outcomes)


def write_prompts(path: Path, world: World) -> DatasetFolder:
    """Prompts enough for the budget, with room for a sample that is short by chance."""
    folder = DatasetFolder(path)
    folder.path.mkdir(parents=True, exist_ok=True)
    count = int(1.5 * world.budget / world.moments()[0]) + 2 * world.at_once
    lines = [encode(Prompt(conversation_id("a", b"%d" % n, 0), n, "short", [], [1, 2])) for n in range(count)]
    folder.prompts.write_bytes(b"\n".join(lines) + b"\n")
    return folder


def ids_of(folder: DatasetFolder) -> bytes:
    with folder.prompts.open("rb") as file:
        return bytes.fromhex("".join(line[7:39].decode() for line in file))


class ToyRun:
    """One run of one seed. All running answers grow alike, so that a clock of tokens orders their ends."""

    def __init__(self, folder: DatasetFolder, ids: bytes, world: World, seed: int) -> None:
        self.world = world
        self.now = 0.0
        self._rng = random.Random(seed)
        self._folder = folder
        self._ids = ids
        self._standing = Standing(ids, None, world.budget)
        self._grown = 0.0  # tokens that an answer running from the start would have
        self._running: list[tuple[float, int]] = []  # a heap of (end on the clock of tokens, position)
        self._queued: list[int] = []
        self._begun: dict[int, int] = {}  # tokens that an answer already has when it is sent
        self._lengths: dict[int, int] = {}
        self._generated = 0

    def run(self, stop: Stop | None = None) -> Outcome:
        stops = [share * self.world.budget for share in stop.after] if stop else []
        while True:
            kill_at = stops.pop(0) if stops else None
            if not self._start(stop, kill_at):
                break
        tally = self._standing.tally()
        assert tally.owed == 0 and tally.counting_tokens >= self.world.budget
        full = self._generated * self.world.pace(self.world.at_once) / self.world.at_once
        surplus = self._generated - tally.counting_tokens
        return Outcome(tally.counting, tally.counting_tokens, surplus, self.now, self.now / full)

    def first_to_finish(self) -> Outcome:
        """The naive stop: whatever has finished when their sum reaches the budget."""
        rows = tokens = 0
        positions = iter(range(1 << 30))
        while tokens < self.world.budget:
            while self._in_flight < self.world.at_once:
                self._send(next(positions))
            position = self._advance()
            rows, tokens = rows + 1, tokens + self._lengths[position]
        return Outcome(rows, tokens, 0, self.now, 1.0)

    @property
    def _in_flight(self) -> int:
        return len(self._running) + len(self._queued)

    def _start(self, stop: Stop | None, kill_at: float | None) -> bool:
        """From a start to its end: False where everything is settled, True where it was stopped."""
        stream = Stream(
            Dataset(name="a", source="x"),
            self._folder,
            self._standing,
            sampling=Sampling(),
            limit=self.world.limit,
            now=lambda: self.now,
        )
        self._running, self._queued = [], []
        die = float("inf")
        try:
            while True:
                while self._in_flight < self.world.at_once and (prompt := stream.next()):
                    self._send(prompt.position)
                    stream.sent(prompt.position, self.world.limit)
                    if begun := self._begun.get(prompt.position):
                        stream.partial(prompt.position, begun)
                if not self._in_flight:
                    return False
                if kill_at is not None and self._generated >= kill_at and die == float("inf"):
                    die = self.now + self._rng.uniform(0, 60)  # stops come at any time, not just when an answer ends
                if stop and self._next_end() >= die:
                    self._grow(die)
                    self._stop(stop)
                    return True
                self._answer(stream, self._advance())
        finally:
            stream.close()

    def _send(self, position: int) -> None:
        if position not in self._lengths:
            self._lengths[position] = self.world.draw(self._rng)
        self._queued.append(position)
        self._admit()

    def _admit(self) -> None:
        while self._queued and len(self._running) < self.world.admitted:
            position = self._queued.pop(0)
            left = self._lengths[position] - self._begun.get(position, 0)
            heapq.heappush(self._running, (self._grown + left, position))

    def _next_end(self) -> float:
        """When the next answer ends, in seconds."""
        return self.now + (self._running[0][0] - self._grown) * self.world.pace(len(self._running))

    def _grow(self, until: float) -> None:
        self._grown += (until - self.now) / self.world.pace(len(self._running))
        self.now = until

    def _advance(self) -> int:
        """On to the next end of an answer. Returns its position."""
        self.now = self._next_end()
        self._grown, position = heapq.heappop(self._running)
        self._admit()
        return position

    def _answer(self, stream: Stream, position: int) -> None:
        length = self._lengths[position]
        self._generated += length
        finish = Finish.LENGTH if length == self.world.limit else Finish.STOP
        id = self._ids[16 * position : 16 * position + 16].hex()
        self._standing.done(Entry(id, position, 0, 2, length, finish, self.world.limit))
        stream.answered(Completion(id, position, 0, [], 2, length, finish, 2, 0, 1.0, "toy", self.world.limit))

    def _stop(self, stop: Stop) -> None:
        """What is in flight stands as far as the kind of stop says; the next start begins there."""
        lost = 0.0
        if stop.kind == "checkpoint":
            lost = (self.now % stop.every) / self.world.pace(len(self._running))
        flying = [(self._lengths[p] - (end - self._grown), p) for end, p in self._running]
        for there, position in flying:
            if stop.kind == "redraw":
                del self._lengths[position]
                continue
            begun = max(self._begun.get(position, 0), int(there - lost))
            self._begun[position] = begun
            if stop.kind == "checkpoint":
                self._lengths[position] = self.world.draw(self._rng, longer_than=begun)
