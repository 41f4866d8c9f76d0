"""Generated ids → parts.

The parser reads ids, never text: a marker that was generated as ordinary tokens is ordinary text, as it is to the
model. What a marker means is ``Markers.roles``; ``walk`` serves all families but gpt-oss, whose answers are messages
with headers (``harmony``).
"""

from collections.abc import Sequence

from draftmill.records import Tool
from draftmill.render import calls, harmony
from draftmill.render.families import Body
from draftmill.render.markers import Markers
from draftmill.render.parts import End, Kind, Oddity, Parts
from draftmill.render.tiles import Decode, Tiles
from draftmill.render.walk import Walk


def parse(
    ids: Sequence[int], markers: Markers, *, opened: bool, decode: Decode, tools: Sequence[Tool] | None = None
) -> Parts:
    """The parts of an answer's ids. Never raises for ids of the vocabulary, in whatever order they come.

    ``opened``: the prompt ends inside thinking (``Markers.opened``). ``tools`` are those that the prompt offered: they
    type the arguments of families that write values without quotes, and without them a bare JSON answer is no call.
    """
    answer = list(ids)
    stop = next((i for i, id in enumerate(answer) if id in markers.turn_ends or id in markers.stops), len(answer))
    end = End.CUT
    if stop < len(answer):
        end = End.TURN if answer[stop] in markers.turn_ends else End.STOP
    tiles = Tiles(answer, markers, decode, calls.schemas(tools))
    if markers.body is Body.HARMONY:
        harmony.tile(tiles, stop)
    else:
        Walk(tiles, opened).tile(stop, end)
        if markers.body is Body.PYTHON_TAG and tools:
            tiles.bare_calls(end is not End.CUT)
    if stop < len(answer):
        tiles.put(Kind.END, stop + 1)
    if stop + 1 < len(answer):
        tiles.odd(Oddity.AFTER_END, stop + 1)
        tiles.put(Kind.AFTER, len(answer))
    return Parts(tuple(tiles.parts), end, opened, tuple(tiles.oddities))
