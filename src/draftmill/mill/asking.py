"""How a prompt is asked for: the request, with everything that shapes its answer."""

import itertools
import secrets
from collections.abc import Sequence

from draftmill.engines.protocol import Request
from draftmill.journal.prompts import PromptHead
from draftmill.mill.call import Call, redraw_seed
from draftmill.mill.lane import LaneQueue
from draftmill.mill.seat import Seat
from draftmill.mill.stream import Stream
from draftmill.mill.work import Work

_HEARD = 2000  # growing answers told of a second: half a core; where more are in flight, each is told of less often
_TELL_SECONDS = 5.0  # the forecast and the watch for stalls hear of growing answers at least so often


class Asking:
    """Makes the requests of one start of a run.

    ``start`` is part of every request's tag, random unless given: a server may still end the calls of a start that was
    killed, by their tags, and ours must not be among them. ``checkpoint``: seconds between two journaled beginnings.
    """

    def __init__(self, seed: int, stop_ids: tuple[int, ...], checkpoint: float | None, start: str = "") -> None:
        self.clamped = 0  # calls that the engine's context leaves less room than the recipe's limit
        self._seed = seed
        self._stop_ids = tuple(dict.fromkeys(stop_ids))
        self._checkpoint = checkpoint or 1.0
        self._start = start or secrets.token_hex(4)
        self._order = itertools.count()

    def call(self, lane: LaneQueue, seat: Seat, stream: Stream, work: Work, at_once: int) -> Call:
        """The call that goes on with a piece of work, beside ``at_once`` others. Its request's limit is 0 where nothing
        is left to be asked for: the limit was lowered below what is there already, or the context ends here."""
        prompt, begun, ids = work.prompt, work.begun, work.prompt.prompt_ids
        room, limit = seat.room(len(ids)), stream.limit_of(prompt)
        self.clamped += room < limit
        if begun:
            ids = [*ids, *begun]
            room, limit = seat.room(len(ids)), limit - len(begun)
        rest = min(limit, room)
        seed = redraw_seed(self._seed, prompt.id, prompt.turn) if work.redrawn and not begun else None
        return Call(lane, seat, stream, work, self.request(seat, stream, prompt, ids, max(rest, 0), at_once, seed))

    def request(
        self,
        seat: Seat,
        stream: Stream,
        prompt: PromptHead,
        ids: Sequence[int],
        limit: int,
        at_once: int,
        seed: int | None = None,
    ) -> Request:
        """``ids``: the prompt and what is there already of its answer; ``limit``: new ids at most."""
        return Request(
            prompt_ids=ids,
            limit=limit,
            sampling=stream.sampling,
            stop_ids=tuple(dict.fromkeys(self._stop_ids + seat.own_stops)) if seat.own_stops else self._stop_ids,
            tag=f"{prompt.id}-{prompt.turn}-{self._start}-{next(self._order)}",
            seed=seed,
            tell_every=min(max(self._checkpoint, at_once / _HEARD), _TELL_SECONDS),
        )
