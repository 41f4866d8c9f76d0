"""The loop: owed prompts to open seats, checked replies to the scribe, faults down their three paths."""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import msgspec

from draftmill.engines.check import check_reply
from draftmill.engines.protocol import OnIds, Reply, Request
from draftmill.errors import (
    CapacityFault,
    DraftmillError,
    EngineError,
    PromptFault,
    ReplyFault,
    RunError,
    SetupFault,
    TransportFault,
)
from draftmill.journal.reader import encode
from draftmill.journal.writer import Appender
from draftmill.mill import clock
from draftmill.mill.call import Call, redraw_seed
from draftmill.mill.collector import rare_collections
from draftmill.mill.drain import drain
from draftmill.mill.growth import Growth
from draftmill.mill.lane import LaneQueue
from draftmill.mill.load import Outlook, sample_loads
from draftmill.mill.mixing import next_to_send
from draftmill.mill.scribe import Scribe
from draftmill.mill.seat import Seat, State
from draftmill.mill.stream import Stream
from draftmill.mill.work import Then, Work, decide, delay
from draftmill.recipe import Lane, Order
from draftmill.records import Completion, Failure, Finish

_OTHER_SEAT_SECONDS = 0.5  # a prompt that fits only a busy engine waits this long before it is looked at again


class Ending(Enum):
    """Why a loop ended."""

    DONE = "every prompt that was asked for is settled"
    INTERRUPTED = "interrupted"
    ERRORS = "too many errors"
    FAILED = "failed"


@dataclass(frozen=True)
class Limits:
    """When to stop. ``patience``: seconds without an open engine. ``drain``: seconds for what is in flight.

    ``checkpoint``: seconds between two journaled beginnings of an answer under way; None: they are not streamed.
    """

    max_errors: int | None = None
    patience: float = 900.0
    drain: float = 60.0
    checkpoint: float | None = 1.0


class Loop:
    """Feeds the seats until nothing is owed, then says why it ended.

    ``tell(kind, subject, message)`` hears what happens; ``vocab_size`` and ``stop_ids`` are the target's; ``start`` is
    part of every request's tag, random unless given. One ending holds an error in ``error``; then nothing received is
    lost, and what was in flight is owed again.
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
        self.suspects = 0
        self.clamped = 0
        self._lanes = [
            LaneQueue(name, None if lane.concurrency == "auto" else lane.concurrency) for name, lane in lanes.items()
        ]
        self._stop_ids = stop_ids
        self._vocab_size = vocab_size
        self._limits = limits
        self._tell = tell
        self._load_log = load_log
        self._seed = seed
        self._mix = order
        self._wake = asyncio.Event()
        self._calls: dict[asyncio.Task[None], Call] = {}
        self._errands: set[asyncio.Task[None]] = set()
        # a server may still end the calls of a start that was killed, by their tags: ours must not be among them
        self._start = start or secrets.token_hex(4)
        self._order = itertools.count()
        self._alone: list[Work] = []
        self._one_alone = False
        self._given_up = 0
        self._answers = 0
        self._failing_since: float | None = None
        self._crash: BaseException | None = None
        self._no_seat_since: float | None = None

    def at_engines(self, dataset: int) -> int:
        """How many requests of the ``dataset``-th stream are at the engines now."""
        return sum(call.work.dataset == dataset for call in list(self._calls.values()))

    def stop(self, ending: Ending, error: DraftmillError | None = None) -> None:
        """Send nothing new, give what is in flight its time, then end. A second interrupt ends at once."""
        if self.stopping is not None and ending is Ending.INTERRUPTED:
            for task in self._calls:
                task.cancel()
        self.stopping = self.stopping or ending
        self.error = self.error or error
        self._wake.set()

    async def run(self) -> Ending:
        """Until everything is settled or something stops it. The files are synced when it returns."""
        with rare_collections():
            return await self._run()

    async def _run(self) -> Ending:
        self._scribe = Scribe(lambda: self.stop(Ending.FAILED, self._scribe.failure))
        for seat in self.seats:
            seat.begin(self._outlook(seat, 0).growth)
        put: Callable[[bytes], None] = lambda line: self._scribe.put(self._load_log, line)  # noqa: E731
        sampler = asyncio.create_task(sample_loads(self.seats, put, self._outlook, self._wake.set))
        try:
            while self.stopping is None:
                self._dispatch()
                if not self._calls and not self._pending():
                    break
                self._check_patience()
                await self._sleep()
            await drain(self._calls, 0.0 if self.error else self._limits.drain, self._tell, asks=self.error is None)
            for errand in self._errands:
                errand.cancel()
        finally:
            sampler.cancel()
            await asyncio.gather(sampler, return_exceptions=True)
            await self._scribe.close()
        if self._crash:
            raise self._crash
        if self._scribe.failure:
            self.error = self._scribe.failure
            return Ending.FAILED
        return self.stopping or Ending.DONE

    # dispatch

    def _dispatch(self) -> None:
        """Fill every free place, from those lanes that are not full."""
        if self._alone:
            self._dispatch_alone()
        now = clock.now()
        open_lanes = [] if self._alone or self._one_alone else list(self._lanes)
        while open_lanes and self.stopping is None and any(seat.free for seat in self.seats):
            open_lanes = [lane for lane in open_lanes if not lane.full]
            work = self._next(open_lanes, now)
            if work is None:
                break
            lane = self._lane(work)
            if not self._place(lane, work):
                open_lanes.remove(lane)

    def _next(self, lanes: list[LaneQueue], now: float) -> Work | None:
        """What is sent next: a prompt that waited to be sent again, else of the dataset whose turn it is."""
        due = [lane for lane in lanes if lane.due() <= now]
        if due:
            return min(due, key=LaneQueue.due).again()
        names = {lane.name for lane in lanes}
        ready = [index for index, stream in enumerate(self.streams) if stream.ready() and stream.lane in names]
        while ready:
            index = ready[0] if len(ready) == 1 else self._turn(ready)
            stream = self.streams[index]
            if prompt := stream.next():
                return stream.work(index, prompt)
            ready.remove(index)  # the forecast has just been worked out anew
        return None

    def _turn(self, ready: list[int]) -> int:
        owed = [stream.owed() for stream in self.streams]
        return next_to_send(ready, [stream.lane for stream in self.streams], owed, self._mix, len(self._calls))

    def _place(self, lane: LaneQueue, work: Work) -> bool:
        """Send a prompt to the least loaded engine. False where the engines that it fits have no place for it."""
        length = len(work.prompt.prompt_ids)
        fitting = [seat for seat in self.seats if seat.room(length)]
        free = [seat for seat in fitting if seat.free]
        if work.prompt.fault:
            self._give_up(work, "render", work.prompt.fault, None)
        elif not fitting:
            most = max(seat.identity.max_prompt or seat.identity.context or 0 for seat in self.seats)
            reason = f"the prompt has {length} tokens, which leave no room for an answer; the engine takes {most}"
            self._give_up(work, "too_long", reason, None)
        elif not free:
            lane.later(work, _OTHER_SEAT_SECONDS)
            return False
        else:
            self._send(lane, min(free, key=lambda seat: seat.in_flight / seat.ceiling), work)
        return True

    def _dispatch_alone(self) -> None:
        """A prompt that was there at several engine deaths goes out with nothing else in flight."""
        if self._calls:
            return
        work = self._alone[0]
        seat = next((s for s in self.seats if s.free and s.room(len(work.prompt.prompt_ids))), None)
        if seat is not None:
            self._alone.pop(0)
            work.alone = self._one_alone = True
            self._send(self._lane(work), seat, work)

    def _send(self, lane: LaneQueue, seat: Seat, work: Work) -> None:
        stream, prompt = self.streams[work.dataset], work.prompt
        room = seat.room(len(prompt.prompt_ids))
        limit = stream.limit_of(prompt)
        self.clamped += room < limit
        rest = min(limit - len(work.begun), seat.room(len(prompt.prompt_ids) + len(work.begun)))
        request = Request(
            prompt_ids=prompt.prompt_ids + work.begun,
            limit=max(rest, 0),
            sampling=stream.sampling,
            stop_ids=tuple(dict.fromkeys(self._stop_ids + seat.own_stops)),
            tag=f"{prompt.id}-{prompt.turn}-{self._start}-{next(self._order)}",
            seed=redraw_seed(self._seed, prompt.id, prompt.turn) if work.redrawn and not work.begun else None,
        )
        call = Call(lane, seat, stream, work, request)
        if rest < 1:  # the limit was lowered below what is there already, or the context ends here
            self._keep(call, Reply([], len(request.prompt_ids), 0, Finish.LENGTH))
            return
        stream.sent(prompt.position, call.limit)
        lane.in_flight += 1
        seat.in_flight += 1
        task = asyncio.create_task(self._run_call(call))
        self._calls[task] = call
        task.add_done_callback(self._landed)

    def _landed(self, task: "asyncio.Task[None]") -> None:
        del self._calls[task]
        self._wake.set()
        if not task.cancelled() and (crash := task.exception()):
            self._crash = crash  # a fault of ours: it ends the run with its traceback, never a silent loss
            self.stop(Ending.FAILED)

    # replies and faults

    async def _run_call(self, call: Call) -> None:
        request, seat = call.request, call.seat
        try:
            reply = await seat.engine.generate(request, self._listener(call))
            if reason := check_reply(request, reply, self._vocab_size):
                raise _Suspect(f"{seat.engine.name}: {reason}", reply)
        except EngineError as fault:
            self._failed(call, fault)
        except asyncio.CancelledError:
            self._keep_beginning(call)
            raise
        else:
            seat.answered()
            self._failing_since = None
            self._answers += 1
            if reply.finish is Finish.ABORT:
                call.hear(reply.output_ids)
                self._keep_beginning(call, empty=True)
                call.lane.later(call.work, 0.0)
            else:
                self._keep(call, reply)
        finally:
            call.lane.in_flight -= 1
            seat.in_flight -= 1
            self._one_alone = self._one_alone and not call.alone

    def _listener(self, call: Call) -> OnIds | None:
        """What hears the ids of an answer while it grows, and journals its beginning now and then."""
        every = self._limits.checkpoint
        if every is None or not call.stream.continues:
            return None

        def hear(ids: list[int]) -> None:
            call.hear(ids)
            self._failing_since = None
            if clock.now() - call.marked >= every:
                self._journal_piece(call, call.piece(self._vocab_size))

        return hear

    def _keep_beginning(self, call: Call, empty: bool = False) -> None:
        if call.stream.continues:
            self._journal_piece(call, call.keep_beginning(self._vocab_size, empty))

    def _journal_piece(self, call: Call, piece: Completion | None) -> None:
        if piece is not None:
            self._scribe.put(call.stream.journal, encode(piece))

    def _keep(self, call: Call, reply: Reply) -> None:
        completion = call.completion(reply)

        def durable() -> None:
            call.stream.answered(completion)
            self._wake.set()

        self._scribe.put(call.stream.journal, encode(completion), durable)

    def _failed(self, call: Call, fault: EngineError) -> None:
        seat, work = call.seat, call.work
        match fault:
            case CapacityFault():
                seat.refused(fault)
            case SetupFault():
                seat.pause(fault, self._wake.set)
            case TransportFault():
                seat.doubt(fault, self._wake.set)
                self._abandon(call)
        if isinstance(fault, TransportFault) and not work.faults:
            work.seen = self._answers
        then = decide(fault, work, self._answers)
        if not isinstance(fault, PromptFault):  # an engine that refuses one prompt works
            self._failing_since = self._failing_since or clock.now()
        work.tries += not isinstance(fault, CapacityFault | SetupFault)
        if then is Then.ERROR:
            kind = "engine_death" if isinstance(fault, TransportFault) else "prompt"
            self._give_up(work, kind, fault.message, seat.engine.name)
            return
        if then is Then.SUSPECT:
            self._set_aside(seat, work, call.request, fault)
            call.stream.waits(work.prompt.position)
        else:
            self._keep_beginning(call)
        work.faults += isinstance(fault, TransportFault)
        if work.alone and then is Then.LATER:
            work.alone, work.faults = False, 0
        if then is Then.ALONE:
            self._alone.append(work)
        else:
            call.lane.later(work, delay(work.faults) if then is Then.LATER else 0.0)

    def _abandon(self, call: Call) -> None:
        """Ask the engine to stop what it may still generate for nobody: the answer goes on elsewhere."""

        async def abort() -> None:
            with contextlib.suppress(EngineError):
                await call.seat.engine.abort(call.request.tag)

        task = asyncio.create_task(abort())
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def _set_aside(self, seat: Seat, work: Work, request: Request, fault: EngineError) -> None:
        """Keep the evidence of a reply that cannot be believed; the second one stops the run."""
        stream, prompt = self.streams[work.dataset], work.prompt
        evidence = {
            "id": prompt.id,
            "position": prompt.position,
            "turn": prompt.turn,
            "reason": fault.message,
            "engine": seat.engine.name,
            "limit": request.limit,
            "prompt_ids": prompt.prompt_ids,
            "reply": getattr(fault, "reply", None),
        }
        self._scribe.put(stream.suspect(), encode(evidence))
        self.suspects += 1
        self._tell("suspect", seat.engine.name, fault.message)
        if self.suspects > 1:
            error = RunError(
                f"a second reply cannot be believed: {fault.message}",
                f"the evidence is in {stream.folder.suspects}; nothing of it went into the journal",
            )
            self.stop(Ending.FAILED, error)

    def _give_up(self, work: Work, kind: str, reason: str, engine: str | None) -> None:
        stream, prompt = self.streams[work.dataset], work.prompt
        failure = Failure(prompt.id, prompt.position, prompt.turn, kind, reason, work.tries or 1, engine, prompt.where)

        def durable() -> None:
            stream.gave_up(prompt.position)
            self._wake.set()

        self._scribe.put(stream.errors, encode(failure), durable)
        self._given_up += 1
        if self._given_up == self._limits.max_errors:
            self.stop(Ending.ERRORS)

    # waiting and ending

    def _pending(self) -> bool:
        """Whether anything is under way (waiting and on the way to the disk included) or may still be sent."""
        return any(stream.in_flight or stream.ready() for stream in self.streams)

    def _outlook(self, seat: Seat, queued: int) -> Outlook:
        """For a seat's governor. The requests that were sent last are taken to be those that wait at its server."""
        ready = [stream for stream in self.streams if stream.ready()]
        waiting = any(lane.due() <= clock.now() for lane in self._lanes)
        if self.stopping is not None or not (ready or waiting):
            return Outlook(Growth(), draining=True)
        growth = Growth()
        for stream in ready:
            stream.may_grow(growth)
        calls = [call for task, call in self._calls.items() if call.seat is seat and not task.done()]
        for number, call in enumerate(calls):
            call.stream.grows(growth, call.work.prompt, waits=number >= len(calls) - queued)
        return Outlook(growth, draining=False)

    def _lane(self, work: Work) -> LaneQueue:
        name = self.streams[work.dataset].lane_of(work.prompt)
        return next(lane for lane in self._lanes if lane.name == name)

    async def _sleep(self) -> None:
        """Until something happens, a pause is over, or a second has passed (a full server is not announced)."""
        due = min(lane.due() for lane in self._lanes)
        timeout = min(1.0, max(0.01, due - clock.now()))
        timer = asyncio.get_running_loop().call_later(timeout, self._wake.set)
        await self._wake.wait()
        timer.cancel()
        self._wake.clear()

    def _check_patience(self) -> None:
        """No open seat, or faults without one answer: the end after the patience; at once where all are refused."""
        now = clock.now()
        if any(seat.state in (State.OPEN, State.DOUBTED) for seat in self.seats):
            self._no_seat_since = None
        else:
            self._no_seat_since = self._no_seat_since or now
        refused = all(seat.state is State.PAUSED and not (seat.ever_answered or seat.failures) for seat in self.seats)
        since = min((t for t in (self._no_seat_since, self._failing_since) if t is not None), default=None)
        if refused or (since is not None and now - since >= self._limits.patience):
            why = "; ".join(f"{seat.engine.name} is {seat.state.value}: {seat.last_fault}" for seat in self.seats)
            advice = "mend the engine and run the same command again; what was in flight is owed, nothing is lost"
            self.stop(Ending.FAILED, RunError(f"no engine takes work: {why}", advice))


class _Suspect(ReplyFault):
    """A reply that failed its check, with the reply as evidence."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = msgspec.to_builtins(reply)
