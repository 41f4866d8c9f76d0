"""What is sent next: a prompt that waited to be sent again, else one of the dataset whose turn it is."""

from collections.abc import Sequence

from draftmill.mill.lane import LaneQueue
from draftmill.mill.mixing import next_to_send
from draftmill.mill.stream import Stream
from draftmill.mill.work import Work
from draftmill.recipe import Order


def next_work(
    streams: Sequence[Stream], lanes: Sequence[LaneQueue], order: Order, now: float, at_once: int
) -> Work | None:
    """The next prompt of those lanes; None where none of them owes any just now. ``at_once``: requests in flight."""
    due = [lane for lane in lanes if lane.due() <= now]
    if due:
        return min(due, key=LaneQueue.due).again()
    names = {lane.name for lane in lanes}
    ready = [index for index, stream in enumerate(streams) if stream.ready() and stream.lane in names]
    while ready:
        index = ready[0] if len(ready) == 1 else _turn(streams, ready, order, at_once)
        stream = streams[index]
        if prompt := stream.next():
            return stream.work(index, prompt)
        ready.remove(index)  # the forecast has just been worked out anew
    return None


def _turn(streams: Sequence[Stream], ready: Sequence[int], order: Order, at_once: int) -> int:
    owed = [stream.owed() for stream in streams]
    return next_to_send(ready, [stream.lane for stream in streams], owed, order, at_once)
