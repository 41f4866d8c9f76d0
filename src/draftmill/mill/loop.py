"""The loop: owed prompts to open seats, until nothing is owed or something stops it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from draftmill.engines.protocol import Reply, Request
from draftmill.errors import DraftmillError, TransportFault
from draftmill.journal.writer import Appender
from draftmill.ledger.told import SETTLED
from draftmill.mill import clock
from draftmill.mill.asking import Asking
from draftmill.mill.call import Call
from draftmill.mill.collector import rare_collections
from draftmill.mill.drain import drain
from draftmill.mill.growth import Growth
from draftmill.mill.lane import LaneQueue
from draftmill.mill.load import Done, Outlook, sample_loads
from draftmill.mill.mishaps import Mishaps
from draftmill.mill.patience import Keeper, Patience
from draftmill.mill.returns import Ears, Returns
from draftmill.mill.scribe import Scribe
from draftmill.mill.seat import Seat, State
from draftmill.mill.sending import next_work
from draftmill.mill.stream import Stream
from draftmill.mill.trial import WITNESS_TOKENS, Trials, hear
from draftmill.mill.work import ALONE_AFTER, Work, delay
from draftmill.recipe import Concurrency, Lane, Order
from draftmill.records import Finish

_OTHER_SEAT_SECONDS = 0.5  # a prompt that fits only a busy engine waits this long before it is looked at again


class Ending(Enum):
    """Why a loop ended."""

    DONE = SETTLED
    INTERRUPTED = "interrupted"
    ERRORS = "too many errors"
    FAILED = "failed"


@dataclass(frozen=True)
class Limits:
    """When to stop. ``patience``: seconds without an open engine, not counting those in which the ``keeper`` starts one
    again. ``drain``: seconds for what is in flight.

    ``checkpoint``: seconds between two journaled beginnings of an answer under way; None: they are not streamed.
    ``stall``: seconds without any progress after which a server that has requests of ours is taken for stuck.
    """

    max_errors: int | None = None
    patience: float = 900.0
    drain: float = 60.0
    checkpoint: float | None = 1.0
    stall: float = 300.0
    keeper: Keeper | None = None


class Loop:
    """Feeds the seats until nothing is owed, then says why it ended.

    ``tell(kind, subject, message)`` hears what happens; ``vocab_size`` and ``stop_ids`` are the target's; ``start`` as
    for ``Asking``. One ending holds an error in ``error``; then nothing received is
    lost, and what was in flight is owed again. While it runs, seats may ``join`` and ``leave``, lanes get other caps,
    and it may be paused.
    """

    def __init__(
        self,
        streams: list[Stream],
        seats: list[Seat],
        lanes: dict[str, Lane],
        *,
        stop_ids: tuple[int, ...],
        vocab_size: int,
        limits: Limits,
        tell: Callable[[str, str, str], None],
        load_log: Appender,
        seed: int = 0,
        start: str = "",
        order: Order = "together",
    ) -> None:
        self.streams = streams
        self.seats = seats
        self.error: DraftmillError | None = None
        self.stopping: Ending | None = None
        self.paused = False
        self._lanes = [LaneQueue(name, _cap(lane.concurrency)) for name, lane in lanes.items()]
        self._lane_of = {lane.name: lane for lane in self._lanes}
        self._limits = limits
        self._tell = tell
        self._load_log = load_log
        self._mix = order
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._calls: dict[asyncio.Task[None], Call] = {}
        self._asking = Asking(seed, stop_ids, limits.checkpoint, start)
        self._trials = Trials(streams)
        self._witness: asyncio.Task[None] | None = None
        self._crash: BaseException | None = None
        self._patience = Patience(limits.patience, limits.keeper)
        self._mishaps = Mishaps(tell)
        self._returns = Returns(
            lambda *line: self._scribe.put(*line),
            self._trials,
            Ears(
                tell=tell,
                wake=self._wake.set,
                fail=lambda error: self.stop(Ending.FAILED, error),
                too_many=lambda: self.stop(Ending.ERRORS),
                ended=self.crashed,
                mishaps=self._mishaps,
            ),
            vocab_size=vocab_size,
            checkpoint=limits.checkpoint,
            max_errors=limits.max_errors,
        )

    @property
    def clamped(self) -> int:
        """How many calls the engines' context left less room than the recipe's limit."""
        return self._asking.clamped

    @property
    def suspects(self) -> int:
        """How many replies could not be believed."""
        return self._returns.suspects

    def at_engines(self, dataset: int) -> int:
        """How many requests of the ``dataset``-th stream are at the engines now."""
        return sum(call.work.dataset == dataset for call in list(self._calls.values()))

    def stop(self, ending: Ending, error: DraftmillError | None = None) -> None:
        """Send nothing new, give what is in flight its time, then end. A second interrupt ends at once."""
        if self.stopping is not None and ending is Ending.INTERRUPTED:
            self._hurry.set()
        self.stopping = self.stopping or ending
        self.error = self.error or error
        self._wake.set()

    def crashed(self, task: "asyncio.Task[None]") -> None:
        """A task has ended: a fault in it ends the run, one of ours with its traceback, never as a silent loss."""
        if not task.cancelled() and (crash := task.exception()):
            self._fail(crash)

    def _fail(self, crash: BaseException) -> None:
        if isinstance(crash, DraftmillError):
            self.stop(Ending.FAILED, crash)
        else:
            self._crash = self._crash or crash
            self.stop(Ending.FAILED)

    def pause(self, on: bool) -> None:
        """Send nothing new until it goes on; what is in flight goes on."""
        self.paused = on
        self._wake.set()

    def set_cap(self, lane: str, concurrency: Concurrency) -> None:
        """Change the most that a lane has at the engines; what is there already stays."""
        if queue := self._lane_of.get(lane):
            queue.cap = _cap(concurrency)
        self._wake.set()

    def join(self, seat: Seat) -> None:
        """Give work to one more engine."""
        self.seats.append(seat)
        seat.begin(self._outlook(seat, 0).growth)
        self._wake.set()

    async def leave(self, seat: Seat) -> None:
        """Take an engine out: what it has in flight goes on at the others, from its beginning where there is one."""
        seat.leave()
        calls = {task: call for task, call in self._calls.items() if call.seat is seat}
        for call in calls.values():
            call.moves = True
        await drain(calls, self._limits.drain, self._hurry, lambda what: self._tell("drain", seat.engine.name, what))
        self.seats.remove(seat)
        self._wake.set()

    async def run(self) -> Ending:
        """Until everything is settled or something stops it. The files are synced when it returns."""
        with rare_collections():
            return await self._run()

    async def _run(self) -> Ending:
        self._scribe = Scribe(lambda: self.stop(Ending.FAILED, self._scribe.failure), self.crashed)
        put: Callable[[bytes], None] = lambda line: self._scribe.put(self._load_log, line)  # noqa: E731
        beside = sample_loads(self.seats, put, self._outlook, self._done, self._wake.set, self._mishaps)
        sampler = asyncio.create_task(beside)
        sampler.add_done_callback(self.crashed)
        try:
            await self._feed()
            tell: Callable[[str], None] = lambda what: self._tell("drain", "run", f"{what}; Ctrl-C again: at once")  # noqa: E731
            await drain(self._calls, self._limits.drain, self._hurry, tell, asks=self.error is None)
            self._returns.close()
            if self._witness:
                self._witness.cancel()
        finally:
            sampler.cancel()
            await asyncio.gather(sampler, return_exceptions=True)  # ``crashed`` has heard of its faults
            await self._scribe.close()
        if self._crash:
            raise self._crash
        if self._scribe.failure:
            self.error = self._scribe.failure
            return Ending.FAILED
        if self.stopping is Ending.INTERRUPTED and not self._pending():
            return Ending.DONE  # what was in flight was all that was owed, and it came
        return self.stopping or Ending.DONE

    # dispatch

    async def _feed(self) -> None:
        """Until nothing is owed any more, or something stops it. A fault stops it too: what is in flight is kept."""
        try:
            for seat in self.seats:
                seat.begin(self._outlook(seat, 0).growth)
            while self.stopping is None:
                self._dispatch()
                for stream in self.streams:
                    stream.mark_sent()  # no call has begun yet: calls are tasks, which run while this one waits
                if not self._calls and not self._pending():
                    break
                self._check_progress()
                self._check_patience()
                await self._sleep()
        except Exception as error:
            self._fail(error)

    def _dispatch(self) -> None:
        """Fill every free place, from those lanes that are not full."""
        if self.paused:
            return
        trial = self._trials.due(self.seats)
        if trial:
            self._dispatch_alone()
        now = clock.now()
        open_lanes = [] if trial or self._trials.under_way else list(self._lanes)
        while open_lanes and self.stopping is None and any(seat.free for seat in self.seats):
            open_lanes = [lane for lane in open_lanes if not lane.full]
            work = next_work(self.streams, open_lanes, self._mix, now, len(self._calls))
            if work is None:
                break
            lane = self._lane(work)
            if not self._place(lane, work):
                open_lanes.remove(lane)

    def _place(self, lane: LaneQueue, work: Work) -> bool:
        """Send a prompt to the least loaded engine. False where the engines that it fits have no place for it."""
        length = len(work.prompt.prompt_ids)
        free = [seat for seat in self.seats if seat.free and seat.room(length)]
        if work.prompt.fault:
            self._returns.give_up(self.streams[work.dataset], work, "render", work.prompt.fault, None)
        elif free:
            self._send(lane, min(free, key=Seat.filled) if len(free) > 1 else free[0], work)
        elif any(seat.room(length) for seat in self.seats):
            lane.later(work, _OTHER_SEAT_SECONDS)
            return False
        else:
            most = max(seat.identity.max_prompt or seat.identity.context or 0 for seat in self.seats)
            reason = f"the prompt has {length} tokens, which leave no room for an answer; the engine takes {most}"
            self._returns.give_up(self.streams[work.dataset], work, "too_long", reason, None)
        return True

    def _dispatch_alone(self) -> None:
        """A prompt's trial: it goes out with nothing else in flight, to an engine that is seen to work."""
        found = None if self._calls else self._trials.first(self.seats)
        if found is None:
            return
        work, seat = found
        if work.seen < self._returns.answers:
            self._trials.begin()
            self._send(self._lane(work), seat, work)
        elif witness := self._trials.witness(seat):
            stream, prompt = witness
            self._trials.under_way = True
            ids, at_once = prompt.prompt_ids, len(self._calls)
            request = self._asking.request(seat, stream, prompt, ids, WITNESS_TOKENS, at_once)
            self._witness = asyncio.create_task(self._hear(seat, request))
            self._witness.add_done_callback(self.crashed)
        else:
            self._acquit()

    async def _hear(self, seat: Seat, request: Request) -> None:
        fault = await hear(seat.engine, request, self._limits.stall)
        self._trials.under_way = False
        self._returns.heard_witness(seat, fault)
        if isinstance(fault, TransportFault):
            self._acquit()
        self._wake.set()

    def _acquit(self) -> None:
        for work in self._trials.acquit():
            self._lane(work).later(work, delay(ALONE_AFTER))

    def _send(self, lane: LaneQueue, seat: Seat, work: Work) -> None:
        call = self._asking.call(lane, seat, self.streams[work.dataset], work, len(self._calls))
        if not call.request.limit:
            self._returns.keep(call, Reply([], len(call.request.prompt_ids), 0, Finish.LENGTH))
            return
        call.stream.sent(work.prompt.position, call.limit)
        lane.in_flight += 1
        seat.in_flight += 1
        task = asyncio.create_task(self._returns.of(call))
        self._calls[task] = call
        task.add_done_callback(self._landed)

    def _landed(self, task: "asyncio.Task[None]") -> None:
        call = self._calls.pop(task)
        call.lane.in_flight -= 1
        call.seat.in_flight -= 1
        self._trials.under_way = self._trials.under_way and not call.alone
        if task.cancelled():
            self._returns.cut(call)
        self.crashed(task)
        self._wake.set()

    # waiting and ending

    def _pending(self) -> bool:
        """Whether anything is under way (waiting and on the way to the disk included) or may still be sent."""
        return any(stream.in_flight or stream.ready() for stream in self.streams)

    def _outlook(self, seat: Seat, queued: int) -> Outlook:
        """For a seat's governor. The requests that were sent last are taken to be those that wait at its server."""
        ready = [stream for stream in self.streams if stream.ready()]
        waiting = any(lane.due() <= clock.now() for lane in self._lanes)
        if self.paused or self.stopping is not None or not (ready or waiting):
            return Outlook(Growth(), draining=True)
        growth = Growth()
        for stream in ready:
            stream.may_grow(growth)
        calls = [call for task, call in self._calls.items() if call.seat is seat and not task.done()]
        for number, call in enumerate(calls):
            call.stream.grows(growth, call.work.prompt, waits=number >= len(calls) - queued)
        return Outlook(growth, draining=False)

    def _done(self) -> dict[str, Done]:
        return {s.name: Done(s.answers, s.failed, s.tokens, *map(round, s.outlook())) for s in self.streams}

    def _lane(self, work: Work) -> LaneQueue:
        return self._lane_of[self.streams[work.dataset].lane_of(work.prompt)]

    async def _sleep(self) -> None:
        """Until something happens, a pause is over, or a second has passed (a full server is not announced)."""
        due = min(lane.due() for lane in self._lanes)
        timeout = min(1.0, max(0.01, due - clock.now()))
        timer = asyncio.get_running_loop().call_later(timeout, self._wake.set)
        await self._wake.wait()
        timer.cancel()
        self._wake.clear()

    def _check_progress(self) -> None:
        """Take away what lies at servers that stand still: it goes on elsewhere, or there once it moves again."""
        for seat in self.seats:
            if seat.state is not State.OPEN or seat.progress.idle(clock.now(), seat.in_flight) < self._limits.stall:
                continue
            calls = {task: call for task, call in self._calls.items() if call.seat is seat}
            fault = seat.stall(self._limits.stall, next(iter(calls.values())).request, self._wake.set)
            for task, call in calls.items():
                call.stalled = fault
                task.cancel()

    def _check_patience(self) -> None:
        busy = bool(self._calls or self._trials.under_way or self.paused)
        if error := self._patience.ended(self.seats, busy, self._returns.failing_since):
            self.stop(Ending.FAILED, error)


def _cap(concurrency: Concurrency) -> int | None:
    return None if concurrency == "auto" else int(concurrency)
