"""Before the first prompt: engines opened, asked what they are, and compared with the recipe and with each other."""

import resource
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from draftmill.engines import connect
from draftmill.engines.protocol import Engine, Identity
from draftmill.errors import RunError
from draftmill.journal.files import replacing
from draftmill.mill.seat import Seat, mismatch
from draftmill.mill.voices import Voices
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


class Preflight:
    """Opens and examines the engines of one run. ``texts`` are what their tokenizers are asked about, ``stop_ids``
    where answers shall end. ``compared`` counts the texts that gave the same ids. ``kept`` is where the engines' own
    word is recorded, which binds later starts once the run has answers (``begun``).
    """

    def __init__(
        self,
        *,
        gguf: Path | None,
        logs: Path,
        tokenizer: Tokenizer,
        stop_ids: Iterable[int],
        texts: Iterable[str],
        samplings: list[Sampling],
        voices: Voices,
        tell: Callable[[str, str, str], None],
        kept: Path | None = None,
        begun: bool = True,
    ) -> None:
        self.compared = 0
        self._gguf = gguf
        self._logs = logs
        self._tokenizer = tokenizer
        self._texts = [*PROBES, *texts]
        self._samplings = samplings
        self._voices = voices
        self._tell = tell
        self._stop_ids = sorted(stop_ids)
        self._may_end = sorted({*tokenizer.special.values(), *self._stop_ids})
        self._engines: list[Engine] = []
        self._kept = kept
        # of all that were ever taken, in earlier starts too, since what they gave is kept
        self._known = _identities(kept) if begun else []

    async def take(self, spec: EngineSpec) -> Seat:
        """An engine's seat. Raises its own EngineError, and RunError where it may not be used in this run."""
        own = Path(spec.gguf) if spec.gguf else self._gguf
        engine = await connect(spec, gguf=own, log=self._logs / "embedded.log", tell=self._restarted)
        self._engines.append(engine)
        try:
            seat = Seat(engine, spec, await engine.identify(), self._tell)
            self._refuse_mixture(seat.identity)
            self.compared += await compare_tokenizer(engine, self._tokenizer, self._texts)
            seat.own_stops = tuple(await engine.own_stops(self._may_end))
            await self._voices.compare(self._engines)
            seat.recognise = self._voices.again
            self._refuse_mixture(seat.identity)  # again: another one may have been examined meanwhile
            self._know(seat.identity)
        except BaseException:
            self._engines.remove(engine)
            await engine.close()
            raise
        self._tell_ends(seat)
        return seat

    async def release(self, seat: Seat) -> None:
        """Let an engine go that is taken out of the run; what it gave binds those that come after it."""
        try:
            await self._voices.remember(seat.engine)
        finally:
            self._engines = [engine for engine in self._engines if engine is not seat.engine]
            await seat.close()

    def _know(self, identity: Identity) -> None:
        if identity in self._known:
            return
        self._known.append(identity)
        if self._kept:
            with replacing(self._kept) as temporary:
                temporary.write_bytes(msgspec.json.encode(self._known) + b"\n")

    def _tell_ends(self, seat: Seat) -> None:
        """An engine with a set of its own stops nowhere else, whatever it is sent."""
        if missing := [id for id in self._stop_ids if seat.own_stops and id not in seat.own_stops]:
            ids = ", ".join(f"{self._tokenizer.decode([id])!r} ({id})" for id in missing)
            what = "an answer that goes on behind it is set aside, and a second one stops the run"
            self._tell("ends", seat.engine.name, f"ends no answer at {ids}, whatever it is sent: {what}")

    def _restarted(self, message: str) -> None:
        self._tell("restarted", EMBEDDED, message)

    def _refuse_mixture(self, identity: Identity) -> None:
        for known in self._known:
            if differs := mismatch(known, identity):
                raise RunError(
                    f"{known.name} and {identity.name} are not the same target: {differs}",
                    "a drafter learns one model: use engines that serve the same weights",
                )
        refuse_penalty_mixture({known.kind for known in [*self._known, identity]}, self._samplings)


def _identities(path: Path | None) -> list[Identity]:
    """What the engines of earlier starts said of themselves; nothing where that is not known."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Identity]) if path else []
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return []


def fit_open_files(seats: list[Seat]) -> None:
    """One for each connection. Where the system allows fewer than a governor's most, it keeps to what there is."""
    spare = raise_open_files(sum(seat.cap for seat in seats), sum(seat.most - seat.cap for seat in seats))
    governors = [seat.governor for seat in seats if seat.governor]
    for governor in governors:
        governor.most = min(governor.most, governor.cap + spare // len(governors))


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


def refuse_penalty_mixture(kinds: set[str], samplings: list[Sampling]) -> None:
    """Raises RunError where servers of several kinds would apply a repetition penalty to different tokens."""
    if len(kinds) > 1 and any(sampling.repetition_penalty != 1.0 for sampling in samplings):
        raise RunError(
            f"a repetition penalty looks at other tokens in {' than in '.join(sorted(kinds))}, so their answers differ",
            "set repetition_penalty to 1, or use engines of one kind",
        )


async def compare_tokenizer(engine: Engine, tokenizer: Tokenizer, texts: list[str]) -> int:
    """Compare our ids with an engine's own for the same texts. Returns how many texts were compared.

    Raises RunError with the text at the first difference.
    """
    for compared, (text, ids) in enumerate(zip(texts, tokenizer.encode(texts), strict=True)):
        theirs = await engine.tokenize(text)
        if theirs is None:
            return compared
        if theirs != ids:
            difference = _difference(tokenizer, ids, theirs)
            raise RunError(
                f"{engine.name} tokenizes a text otherwise than the recipe's model: {difference}",
                "the recipe's `model` (or `tokenizer`) must be the one that the engine serves",
            )
    return len(texts)


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
