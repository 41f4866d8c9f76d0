"""One side of a comparison: a server that is there, or one that is started for as long as it is asked."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from draftmill.engines import connect
from draftmill.engines.protocol import Engine, Identity
from draftmill.errors import RunError
from draftmill.recipe import EMBEDDED, EngineSpec

Check = Callable[[Engine], Awaitable[object]]
Opened = Callable[[], AbstractAsyncContextManager[Engine]]


class Setting:
    """An engine setting as it was named. ``open`` gives its engine, started where it is ours; ``context`` is what is
    known of it before, and one that is ``standing`` can be asked for it. ``check`` looks at the engine when it is first
    opened, and may raise."""

    def __init__(self, name: str, open: Opened, check: Check, *, context: int | None = None, standing: bool = True):
        self.name = name
        self.identity = Identity("unknown", name)
        self._open = open
        self._check = check
        self._context = context
        self._standing = standing
        self._known = False

    @property
    def context(self) -> int | None:
        """The tokens of prompt and answer together, where that is known: of one that is ours before it starts."""
        return self.identity.context or self._context

    async def introduce(self) -> None:
        """Ask a server that is there what it is, before anything is asked of the other one."""
        if self._standing:
            async with self.opened():
                pass

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Engine]:
        """The engine. Raises an EngineError, what starting one may raise, and what ``check`` does."""
        async with self._open() as engine:
            if not self._known:
                self.identity = await engine.identify()
                await self._check(engine)
                self._known = True
            yield engine


@asynccontextmanager
async def connected(spec: EngineSpec, gguf: Path | None) -> AsyncIterator[Engine]:
    """The engine of a recipe's entry; an embedded one is started, and ends with the block."""
    engine = await connect(spec, gguf=Path(spec.gguf) if spec.gguf else gguf)
    try:
        yield engine
    finally:
        await engine.close()


def of_spec(name: str, spec: EngineSpec, gguf: Path | None, check: Check) -> Setting:
    """The setting of a recipe's entry."""
    embedded = spec.kind == EMBEDDED
    context = spec.context if embedded else None
    return Setting(name, partial(connected, spec, gguf), check, context=context, standing=not embedded)


def room(one: Setting, other: Setting, limit: int) -> int:
    """How many ids a prompt may have for both to answer it up to the limit. Raises RunError where none may."""
    contexts = [side.context for side in (one, other) if side.context]
    left = min(contexts, default=1 << 40) - limit
    if left < 1:
        raise RunError(
            f"a limit of {limit} tokens leaves a prompt nothing of a context of {min(contexts)}",
            "lower --max-new-tokens, or give the engines more context",
        )
    return left


def refuse_other_vocabulary(one: Setting, other: Setting) -> None:
    """Raises RunError for two whose ids cannot mean the same."""
    a, b = one.identity.vocab_size, other.identity.vocab_size
    if a and b and a != b:
        raise RunError(
            f"{one.name} has a vocabulary of {a:,} ids and {other.name} one of {b:,}: they serve other models",
            "compare two settings of one model",
        )
