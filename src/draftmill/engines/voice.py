"""What an engine says to fixed ids: its voice, by which weights are known again whatever a server calls them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from draftmill.engines.protocol import Engine
from draftmill.errors import TransportFault

_PATIENCE = 300.0  # seconds for an engine to say all, behind whatever else it does


class Passage(msgspec.Struct, frozen=True):
    """Ids of which those from ``start`` on are scored."""

    ids: list[int]
    start: int


class Voice(msgspec.Struct, frozen=True):
    """Log-probabilities (nats) that an engine gives the ids of all passages, one after the other."""

    engine: str
    said: tuple[float, ...]


class Recorded(msgspec.Struct):
    """The voices of a run's engines, at every start, and what they were asked: ``voices.json``."""

    passages: list[Passage] = []
    voices: list[Voice] = []


async def hear(engine: Engine, asked: Sequence[Passage]) -> Voice:
    """What an engine says to the passages. Raises an EngineError where it does not."""
    said: list[float] = []
    try:
        async with asyncio.timeout(_PATIENCE):
            for passage in asked:
                said += (await engine.score(passage.ids, passage.start)).logprobs
    except TimeoutError:
        raise TransportFault(f"{engine.name}: has not scored a few ids within {_PATIENCE:.0f} s") from None
    return Voice(engine.name, tuple(said))


def distance(one: Voice, other: Voice) -> float:
    """The mean absolute difference of two engines' log-probabilities, in nats."""
    pairs = list(zip(one.said, other.said, strict=True))
    return sum(abs(a - b) for a, b in pairs) / len(pairs)


def read_voices(path: Path | None) -> Recorded:
    """What a run recorded; nothing where that is not known."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Recorded) if path else Recorded()
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return Recorded()
    ids = sum(len(passage.ids) - passage.start for passage in found.passages)
    return Recorded(found.passages, [voice for voice in found.voices if ids and len(voice.said) == ids])
