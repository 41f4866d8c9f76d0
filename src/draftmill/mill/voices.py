"""Whether engines serve the same weights, judged by what they say: log-probabilities of the same ids, which a run
records.

Servers of two kinds name their weights each in its own words, so names prove nothing. Numbers do: they differ little
where only the arithmetic does, more where weights or arithmetic are quantised, and by nats where the model is another
one. Figures stand in docs/architecture.md.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from draftmill.engines.protocol import Engine
from draftmill.engines.voice import Passage, Voice, distance, hear, read_voices
from draftmill.errors import CapacityFault, EngineError, RenderError, RunError, StorageError, TransportFault
from draftmill.journal.files import replacing
from draftmill.records import Conversation
from draftmill.render.template import ChatTemplate
from draftmill.render.tokenizer import Tokenizer

_IDS = 24  # of an answer are scored: llama.cpp steps through them one call at a time
_SAME = 0.001  # nats below which an engine says what it said before
_DIGITS = 5  # of a nat that are recorded

# Prose, code, sums and nonsense: some ids are likely, some are not. ASCII alone, since llama.cpp gives no probability
# of an id that ends within a character.
_ANSWERS = (
    (
        "What is a glacier?",
        "A glacier is a slow river of ice, born where more snow falls each winter than melts in summer.",
    ),
    (
        "Write a function that adds two numbers.",
        'def add(left, right):\n    """Return the sum."""\n    return left + right  # 12345.678',
    ),
    ("What is 17 times 23?", "17 * 23 = 391, since 17 * 20 = 340 and 17 * 3 = 51."),
    (
        "Who are you?",
        "Zebras audit quartz umbrellas; nobody else volunteered, so the committee adjourned quietly.",
    ),
)


def passages(tokenizer: Tokenizer, template: ChatTemplate, arguments: dict[str, Any]) -> list[Passage]:
    """What engines are asked about: short answers behind questions that the run's own chat template renders."""
    found = []
    for question, answer in _ANSWERS:
        try:
            text = template.text(Conversation([{"role": "user", "content": question}]), arguments)
        except RenderError:  # a template that needs tools, say: any text will do, as long as all get the same
            text = f"{question}\n"
        head, tail = tokenizer.encode([text, answer])
        found.append(Passage(head + tail[:_IDS], len(head)))
    return found


def differ(one: Voice, other: Voice, tolerance: float) -> str:
    """How two voices differ by more than two engines of the same weights do, or ""."""
    apart = distance(one, other)
    if apart <= tolerance:  # false for NaN, which is no voice to trust
        return ""
    return f"they differ by {apart:.3f} nats on average over the same {len(one.said)} ids, above {tolerance:g}"


class Voices:
    """The engines of one run that were heard, also those that are gone: what they gave stands in the journal.

    ``tolerance`` is the recipe's ``engine_tolerance``; ``tell(kind, engine, message)`` hears what comes of it. ``kept``
    is where every voice is recorded, so that later starts and replays may be held against it; what stands there says
    what is asked. ``begun``: the run has answers, so that the engines of its earlier starts bind those of this one.
    """

    def __init__(
        self,
        asked: Sequence[Passage],
        tolerance: float,
        tell: Callable[[str, str, str], None],
        kept: Path | None = None,
        *,
        begun: bool = True,
    ) -> None:
        self._kept = kept
        self._recorded = read_voices(kept)
        if not begun:
            self._recorded.voices = []
        self._earlier = list(self._recorded.voices)
        self._recorded.passages = self._recorded.passages or list(asked)
        self._tolerance = tolerance
        self._tell = tell
        self._heard: dict[Engine, Voice] = {}
        self._turn = asyncio.Lock()

    async def compare(self, engines: Sequence[Engine]) -> None:
        """Hear those that were not heard yet and hold them against all others.

        One that cannot score, or not now, is told and let pass. Raises RunError for two that serve different weights.
        """
        async with self._turn:  # two that come at once must be held against each other
            fresh = [engine for engine in engines if engine not in self._heard]
            voices = await asyncio.gather(*map(self._hear, fresh))
            found = {engine: voice for engine, voice in zip(fresh, voices, strict=True) if voice}
            known = self._heard | found
            for one, other in combinations(known.values(), 2):
                if differs := differ(one, other, self._tolerance):
                    raise RunError(
                        f"{one.engine} and {other.engine} do not serve the same weights: {differs}",
                        "let all engines serve the same weights in the same precision, or leave one of them out; "
                        "where you are sure that they do, raise engine_tolerance in the recipe",
                    )
            for voice in found.values():
                self._refuse_change(voice)
            number = len({voice.engine for voice in known.values()})  # one that left and came again is one
            if others := [*filter(None, (_others(number), "those of earlier starts" if self._earlier else ""))]:
                for voice in found.values():
                    apart = max(distance(voice, other) for other in [*known.values(), *self._earlier])
                    self._tell("weights", voice.engine, f"the same as {' and '.join(others)}, within {apart:.4f} nats")
            self._heard = known
            self._keep(found.values())

    async def remember(self, engine: Engine) -> None:
        """Hear an engine that is about to go, where it was not heard yet: those that come later are held against it."""
        async with self._turn:
            if engine not in self._heard and (voice := await self._hear(engine)):
                self._heard[engine] = voice
                self._keep([voice])

    async def again(self, engine: Engine) -> str:
        """How an engine that was away differs from what it was, or from all others where it was not heard; else "".

        Raises TransportFault or CapacityFault where it is not really back.
        """
        known = [self._heard[engine]] if engine in self._heard else [*self._heard.values(), *self._earlier]
        if not known:
            return ""
        try:
            voice = await hear(engine, self._recorded.passages)
        except (TransportFault, CapacityFault):
            raise
        except EngineError as fault:
            self._unheard(engine, fault)
            return ""
        for one in known:
            if differs := differ(one, voice, self._tolerance):
                return f"not the weights of {one.engine} before: {differs}"
        self._heard.setdefault(engine, voice)
        self._keep([voice])
        return ""

    def _refuse_change(self, voice: Voice) -> None:
        """Raises RunError for an engine whose weights are not those of the run's earlier starts."""
        for one in self._earlier:
            if differs := differ(one, voice, self._tolerance):
                who = "it" if one.engine == voice.engine else one.engine
                raise RunError(
                    f"{voice.engine} does not serve the weights that {who} served at an earlier start: {differs}",
                    "serve what the run was begun with, in the same precision, or give another --out: answers of two "
                    "models are not mixed in one run; where you are sure that it is the same one, raise "
                    "engine_tolerance in the recipe",
                )

    async def _hear(self, engine: Engine) -> Voice | None:
        try:
            return await hear(engine, self._recorded.passages)
        except EngineError as fault:
            self._unheard(engine, fault)
            return None

    def _keep(self, voices: Iterable[Voice]) -> None:
        """Record what was not recorded yet: an engine says nearly the same at every start. Where the disk is full that
        stops nothing: it only proves later what was served."""

        def known(voice: Voice) -> bool:
            return any(one.engine == voice.engine and distance(one, voice) <= _SAME for one in self._recorded.voices)

        fresh = [voice for voice in voices if all(map(math.isfinite, voice.said)) and not known(voice)]
        self._recorded.voices += [Voice(v.engine, tuple(round(said, _DIGITS) for said in v.said)) for v in fresh]
        if not fresh or not self._kept:
            return
        try:
            with replacing(self._kept) as temporary:
                temporary.write_bytes(msgspec.json.encode(self._recorded) + b"\n")
        except StorageError as error:
            self._tell("unheard", "run", f"what the engines say to fixed ids is not recorded: {error.message}")

    def _unheard(self, engine: Engine, fault: EngineError) -> None:
        self._tell("unheard", engine.name, f"its weights cannot be compared: {fault.message}")


def _others(engines: int) -> str:
    if engines < 2:
        return ""
    return "the other engine's" if engines == 2 else f"the other {engines - 1} engines'"
