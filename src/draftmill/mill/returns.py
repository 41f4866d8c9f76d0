"""What comes back of the calls: answers to the journal, beginnings too, faults down their three paths."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from draftmill.engines.check import check_reply
from draftmill.engines.protocol import OnIds, Reply
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
from draftmill.ids import encode
from draftmill.mill import clock
from draftmill.mill.call import Call
from draftmill.mill.mishaps import Mishaps
from draftmill.mill.seat import Seat
from draftmill.mill.stream import Stream
from draftmill.mill.trial import Trials
from draftmill.mill.work import Then, Work, decide, delay
from draftmill.records import Completion, Failure, Finish

Put = Callable[..., None]  # (file, line, then): the scribe's


@dataclass
class Ears:
    """Who hears of what happens: ``tell(kind, subject, message)``; ``wake`` the dispatcher; ``fail`` ends the run,
    ``too_many`` does for its error rows; ``ended`` hears of every task, ``mishaps`` of what the run can do without."""

    tell: Callable[[str, str, str], None]
    wake: Callable[[], None]
    fail: Callable[[DraftmillError], None]
    too_many: Callable[[], None]
    ended: Callable[["asyncio.Task[None]"], None]
    mishaps: Mishaps


class Returns:
    """``checkpoint``: seconds between two journaled beginnings of an answer under way, None: they are not streamed.
    ``failing_since``: since when calls fail without one answer. Prompts that are suspected go to the ``trials``."""

    def __init__(
        self, put: Put, trials: Trials, ears: Ears, *, vocab_size: int, checkpoint: float | None, max_errors: int | None
    ) -> None:
        self.answers = 0
        self.suspects = 0
        self.failing_since: float | None = None
        self._put = put
        self._trials = trials
        self._ears = ears
        self._vocab_size = vocab_size
        self._checkpoint = checkpoint
        self._max_errors = max_errors
        self._given_up = 0
        self._errands: set[asyncio.Task[None]] = set()

    async def of(self, call: Call) -> None:
        """Make the call, and do what its answer or its fault asks for."""
        request, seat = call.request, call.seat
        try:
            reply = await seat.engine.generate(request, self._listener(call))
            if reason := check_reply(request, reply, self._vocab_size):
                raise _Suspect(f"{seat.engine.name}: {reason}", reply)
        except EngineError as fault:
            self._failed(call, fault)
        else:
            seat.answered()
            self.failing_since = None
            self.answers += 1
            self._trials.answered(call.stream, call.work.prompt)
            if reply.finish is Finish.ABORT:
                call.hear(reply.output_ids)
                self._keep_beginning(call, empty=True)
                call.lane.later(call.work, 0.0)
            else:
                self.keep(call, reply)

    def cut(self, call: Call) -> None:
        """The call was cancelled, maybe before it was made at all."""
        if call.stalled:
            self._failed(call, call.stalled)
            return
        self._keep_beginning(call)
        if call.moves:
            call.work.redrawn, call.work.alone = True, False  # redrawn unless its beginning is known
            call.lane.later(call.work, 0.0)

    def keep(self, call: Call, reply: Reply) -> None:
        """Journal a whole answer; where its conversation goes on, the next turn follows once that is durable."""
        stream, work, completion = call.stream, call.work, call.completion(reply)
        if stream.dialogue and not (talk := stream.talk(work)).over:
            ids = list(work.prompt.prompt_ids)
            ended = stream.dialogue.answered(talk, ids, list(completion.output_ids), completion.finish_reason)
            completion = replace(completion, more=ended is None, ended=ended)
        line = encode(completion)
        # nothing with ids waits for a slow disk but the line: neither these nor those of the prompt, where it is done
        completion, goes_on = replace(completion, output_ids=[]), call if completion.more else None

        def durable() -> None:
            stream.answered(completion)
            if goes_on:
                self._errand(self._next_turn(goes_on))
            self._ears.wake()

        self._put(stream.journal, line, durable)

    async def _next_turn(self, call: Call) -> None:
        """Render the turn that a conversation is at, beside the loop, and queue it."""
        stream, before = call.stream, call.work
        prompt = await asyncio.to_thread(stream.turn_of, before.prompt, stream.talk(before))
        call.lane.later(Work(before.dataset, prompt, talk=before.talk), 0.0)
        self._ears.wake()

    def give_up(self, stream: Stream, work: Work, kind: str, reason: str, engine: str | None) -> None:
        """Write an error row: nothing more is tried of this prompt."""
        prompt = work.prompt
        failure = Failure(prompt.id, prompt.position, prompt.turn, kind, reason, work.tries, engine, prompt.where)

        def durable() -> None:
            stream.gave_up(prompt.position)
            self._ears.wake()

        self._put(stream.errors, encode(failure), durable)
        self._given_up += 1
        if self._given_up == self._max_errors:
            self._ears.too_many()

    def heard_witness(self, seat: Seat, fault: EngineError | None) -> None:
        """A prompt that has its answer was asked again: the engine works, or fails without those that are suspected."""
        if fault is not None:
            self._close_seat(seat, fault)
            return
        seat.answered()
        self.failing_since = None
        self.answers += 1

    def close(self) -> None:
        """Let go of what was asked of engines and not answered."""
        for errand in self._errands:
            errand.cancel()

    # beginnings

    def _listener(self, call: Call) -> OnIds | None:
        """What hears the ids of an answer while it grows, and journals its beginning now and then."""
        every = self._checkpoint if call.stream.continues else None
        if every is None and not call.alone:  # of a trial it is heard whether anything comes
            return None

        def hear(ids: Sequence[int]) -> None:
            if call.hear(ids):
                call.seat.progress.heard(clock.now())
                self.failing_since = None
            if every is not None and call.due(every):
                self._journal_piece(call, call.piece(self._vocab_size))

        return hear

    def _keep_beginning(self, call: Call, empty: bool = False) -> None:
        if call.stream.continues:
            self._journal_piece(call, call.keep_beginning(self._vocab_size, empty))

    def _journal_piece(self, call: Call, piece: Completion | None) -> None:
        if piece is not None:
            self._put(call.stream.journal, encode(piece))

    # faults

    def _failed(self, call: Call, fault: EngineError) -> None:
        """A call has failed: what follows for its engine and for its prompt."""
        seat, work, heard = call.seat, call.work, len(call.heard)
        self._close_seat(seat, fault)
        then = decide(fault, work, heard)
        work.tries += not isinstance(fault, CapacityFault | SetupFault)
        if then is Then.ERROR:
            kind = "engine_death" if isinstance(fault, TransportFault) else "prompt"
            self.give_up(call.stream, work, kind, fault.message, seat.engine.name)
            return
        if then is Then.SUSPECT:
            self._set_aside(call, fault)
            self._journal_piece(call, call.take_back())
        else:
            self._keep_beginning(call)
        if isinstance(fault, TransportFault):
            self._abandon(call)
            work.count(self.answers, heard)
        work.alone = False
        if then is Then.ALONE:
            self._trials.add(work)
        else:
            call.lane.later(work, delay(work.faults) if then is Then.LATER else 0.0)

    def _close_seat(self, seat: Seat, fault: EngineError) -> None:
        """What a fault says of the engine."""
        match fault:
            case CapacityFault():
                seat.refused(fault)
            case SetupFault():
                seat.pause(fault, self._ears.wake)
            case TransportFault():
                seat.doubt(fault, self._ears.wake)
        if not isinstance(fault, PromptFault):  # an engine that refuses one prompt works
            self.failing_since = self.failing_since or clock.now()

    def _abandon(self, call: Call) -> None:
        """Ask the engine to stop what it may still generate for nobody: the answer goes on elsewhere."""

        async def abort() -> None:
            try:
                await call.seat.engine.abort(call.request.tag)
            except EngineError:
                pass  # it is gone, or the call is
            except Exception as error:
                self._ears.mishaps.hear(call.seat.engine.name, "a call that nobody waits for could not be ended", error)

        self._errand(abort())

    def _errand(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(what)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        task.add_done_callback(self._ears.ended)

    def _set_aside(self, call: Call, fault: EngineError) -> None:
        """Keep the evidence of a reply that cannot be believed; the second one stops the run."""
        stream, prompt = call.stream, call.work.prompt
        evidence = {
            "id": prompt.id,
            "position": prompt.position,
            "turn": prompt.turn,
            "reason": fault.message,
            "engine": call.seat.engine.name,
            "limit": call.request.limit,
            "prompt_ids": prompt.prompt_ids,
            "reply": getattr(fault, "reply", None),
        }
        self._put(stream.suspect(), encode(evidence))
        self.suspects += 1
        self._ears.tell("suspect", call.seat.engine.name, fault.message)
        if self.suspects > 1:
            error = RunError(
                f"a second reply cannot be believed: {fault.message}",
                f"the evidence is in {stream.folder.suspects}; nothing of it went into the journal",
            )
            self._ears.fail(error)


class _Suspect(ReplyFault):
    """A reply that failed its check, with the reply as evidence."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply
