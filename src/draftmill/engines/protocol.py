"""The one protocol of all engines: token ids in, token ids out."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from draftmill.recipe import Sampling
from draftmill.records import Finish

OnIds = Callable[[Sequence[int]], None]


class Request(msgspec.Struct, frozen=True):
    """One generation to make. Everything that shapes the answer is here, so that nothing is left to a server's default.

    ``limit`` is the most tokens to generate; ``stop_ids`` end the answer and stay in it; ``tag`` names the request at
    the server, for an abort. ``tell_every`` shapes nothing: the seconds between two tellings of a growing
    answer, as near as the server can.
    """

    prompt_ids: Sequence[int]
    limit: int
    sampling: Sampling
    stop_ids: tuple[int, ...]
    tag: str
    seed: int | None = None
    tell_every: float = 1.0


class Reply(msgspec.Struct, frozen=True):
    """What the server said, untouched: ``output_ids`` and every count are the server's own.

    After an ``abort`` of ours ``finish`` is ABORT and ``output_ids`` is what was generated until then, maybe nothing.
    """

    output_ids: Sequence[int]
    prompt_tokens: int
    completion_tokens: int
    finish: Finish
    matched_stop: int | None = None
    cached_tokens: int | None = None


class Identity(msgspec.Struct, frozen=True):
    """What a server says of itself; None where it does not say.

    ``context`` is the most tokens of one request, prompt and answer together; ``max_prompt`` the most of its prompt
    alone, where the server sets a lower bound for that; ``kv_tokens`` the size of its KV cache, at
    ``mem_fraction`` of the memory of each of ``tp`` GPUs.
    """

    kind: str
    name: str
    version: str | None = None
    model: str | None = None
    weights: str | None = None
    vocab_size: int | None = None
    context: int | None = None
    max_prompt: int | None = None
    slots: int | None = None
    kv_tokens: int | None = None
    kv_dtype: str | None = None
    mem_fraction: float | None = None
    tp: int | None = None


class Scored(msgspec.Struct, frozen=True):
    """What a server gives ids that it is shown: natural logarithms of probabilities, one entry for each id.

    ``top`` holds for each position its likeliest ids with theirs, the likeliest first; the id that was shown is among
    them only where it is one of these. None where none were asked for, or where the server has no distribution.
    """

    logprobs: list[float]
    top: list[dict[int, float]] | None = None


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server is doing now; None where it does not say. ``kv_used`` and ``kv_total`` are tokens,
    ``generation_rate`` tokens a second, ``preemptions`` (or retractions) a count since the server's start, ``work`` any
    count that grows while the server computes."""

    running: int
    queued: int
    kv_used: int | None = None
    kv_total: int | None = None
    generation_rate: float | None = None
    preemptions: int | None = None
    work: float | None = None


class Engine(Protocol):
    """One inference server. Every method raises an EngineError subclass and nothing else."""

    name: str

    async def identify(self) -> Identity:
        """Ask the server what it is."""

    async def generate(self, request: Request, on_ids: OnIds | None = None) -> Reply:
        """Generate one answer. Waits as long as the server takes: time in its queue is no timeout.

        ``on_ids`` hears about every ``tell_every`` seconds all the ids generated so far, where the server can tell
        before the end; it may keep the sequence, which grows and never changes. A call that is cancelled frees the
        server. Where prompt and limit do not fit together, servers lower the limit without a word: that is a
        PromptFault, so keep them within ``Identity.context``.
        """

    async def abort(self, tag: str) -> bool:
        """End the generation with this tag: its ``generate`` call then returns soon, with what there is of it.

        False where this engine cannot give a beginning; the call goes on, and may be cancelled.
        """

    async def load(self) -> Load:
        """Ask the server what it is doing."""

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        """Log-probabilities of ``ids[start:]``, each given all ids before it, at temperature 1 and before any cut.

        ``start`` is at least 1. ``top``: so many of the likeliest ids of each position are told as well; vLLM tells
        20 at most. Costs a prefill of all ids at SGLang and vLLM, and a call an id at llama.cpp.
        """

    async def tokenize(self, text: str) -> list[int] | None:
        """The server's own ids for a text, special tokens parsed, none added; None where it has no such call."""

    async def own_stops(self, candidates: list[int]) -> list[int]:
        """Those of ``candidates`` that end an answer at this server although no request asks for it."""

    async def close(self) -> None:
        """Release the connection, and the server where this engine started it."""
