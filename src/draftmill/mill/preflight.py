"""Before the first prompt: engines opened, asked what they are, and compared with the recipe and with each other."""

import asyncio
import resource
from collections.abc import Callable
from pathlib import Path

from draftmill.engines import connect
from draftmill.engines.protocol import Engine
from draftmill.errors import EngineError, RunError
from draftmill.mill.seat import Seat, mismatch
from draftmill.recipe import EMBEDDED, EngineSpec, Sampling
from draftmill.render.tokenizer import Tokenizer

_OTHER_FILES = 256  # journals, sockets of the event loop, libraries

# what tokenizers are known to disagree about: digits, spaces, scripts, emoji, line ends, code
PROBES = (
    "Hello, world! It's 12345.678 — naïve café, don't you'll?",
    "  two  spaces\tand\ttabs\n\n\nthree line ends\r\n",
    "中文字符，日本語テキスト、한국어 und Ümläute ½ ² ٣٤٥",
    "def f(x):\n    return {'a': [1, 2, 3]}  # 🙂👩‍💻\n",
    "x" * 50 + " 1000000 0.0001 1e-5 https://example.org/a?b=c&d=%20",
)


async def take_seats(
    specs: list[EngineSpec], gguf: Path | None, logs: Path, tell: Callable[[str, str, str], None]
) -> list[Seat]:
    """Open every engine of the recipe and ask it what it is.

    Engines that do not answer now are told and left out, as long as one does; two that may not be mixed are refused.
    Raises the engine's own error when none answers, RunError for a mixture.
    """
    results = await asyncio.gather(*(_seat(spec, gguf, logs, tell) for spec in specs), return_exceptions=True)
    seats = [result for result in results if isinstance(result, Seat)]
    faults = [result for result in results if isinstance(result, BaseException)]
    try:
        for fault in faults:
            if not seats or not isinstance(fault, EngineError):
                raise fault
            tell("absent", "run", f"goes on without an engine: {fault.message}")
        for seat in seats[1:]:
            if differs := mismatch(seats[0].identity, seat.identity):
                raise RunError(
                    f"{seats[0].engine.name} and {seat.engine.name} are not the same target: {differs}",
                    "a drafter learns one model: use engines that serve the same weights",
                )
    except BaseException:
        await close_seats(seats)
        raise
    return seats


def raise_open_files(connections: int, more: int = 0) -> int:
    """Raise the process's soft limit on open files to what so many connections need, as far as the hard one lets it.

    ``more`` connections would be good to have; returns how many of them there may be.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    wanted = needed + more
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < needed:
        raise RunError(
            f"{connections} connections at once need {needed} open files; the system allows {hard}",
            f"raise it (ulimit -Hn {needed}) or lower the concurrency",
        )
    return most - needed


def refuse_penalty_mixture(seats: list[Seat], samplings: list[Sampling]) -> None:
    """Raises RunError where servers of several kinds would apply a repetition penalty to different tokens."""
    kinds = sorted({seat.identity.kind for seat in seats})
    if len(kinds) > 1 and any(sampling.repetition_penalty != 1.0 for sampling in samplings):
        raise RunError(
            f"a repetition penalty looks at other tokens in {' than in '.join(kinds)}, so their answers differ",
            "set repetition_penalty to 1, or use engines of one kind",
        )


async def close_seats(seats: list[Seat]) -> None:
    await asyncio.gather(*(seat.close() for seat in seats), return_exceptions=True)


async def compare_tokenizers(seats: list[Seat], tokenizer: Tokenizer, texts: list[str]) -> int:
    """Compare our ids with every engine's own for the same texts. Returns how many texts were compared.

    Raises RunError with the text at the first difference.
    """
    ours = tokenizer.encode(texts)
    compared = 0
    for seat in seats:
        for text, ids in zip(texts, ours, strict=True):
            theirs = await seat.engine.tokenize(text)
            if theirs is None:
                break
            compared += 1
            if theirs != ids:
                difference = _difference(tokenizer, ids, theirs)
                raise RunError(
                    f"{seat.engine.name} tokenizes a text otherwise than the recipe's model: {difference}",
                    "the recipe's `model` (or `tokenizer`) must be the one that the engine serves",
                )
    return compared


def _difference(tokenizer: Tokenizer, ours: list[int], theirs: list[int]) -> str:
    """Where two id lists part, in words with the text around."""
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    before = tokenizer.decode(ours[max(0, at - 8) : at])
    ours_text, theirs_text = tokenizer.decode(ours[at : at + 6]), _safe_decode(tokenizer, theirs[at : at + 6])
    return (
        f"after {before!r} (token {at}) ours are {ours[at : at + 6]} {ours_text!r}, "
        f"the engine's {theirs[at : at + 6]} {theirs_text!r}"
    )


def _safe_decode(tokenizer: Tokenizer, ids: list[int]) -> str:
    return tokenizer.decode([i for i in ids if 0 <= i < tokenizer.size])


async def _seat(spec: EngineSpec, gguf: Path | None, logs: Path, tell: Callable[[str, str, str], None]) -> Seat:
    own = Path(spec.gguf) if spec.gguf else gguf
    told: Callable[[str], None] = lambda message: tell("restarted", EMBEDDED, message)  # noqa: E731
    engine: Engine = await connect(spec, gguf=own, log=logs / "embedded.log", tell=told)
    try:
        return Seat(engine, spec, await engine.identify(), tell)
    except BaseException:
        await engine.close()
        raise
