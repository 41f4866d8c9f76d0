"""Whether a server generates: one token, through the very client that a run uses. What ``/health`` says proves less."""

import asyncio
import contextlib

from draftmill.engines import connect
from draftmill.engines.protocol import Engine, Identity, Request
from draftmill.recipe import EngineSpec, Sampling

_TOKEN_SECONDS = 120.0  # for one token of a server that answers; a kernel may have to be compiled first
_PROMPT = (1, 2, 3)  # ids that every vocabulary has


async def first_token(spec: EngineSpec) -> Identity:
    """Have the server generate one token. Returns what it is; raises an EngineError, or TimeoutError."""
    engine = await connect(spec)
    try:
        identity = await engine.identify()
        await asyncio.wait_for(one_token(engine), _TOKEN_SECONDS)
        return identity
    finally:
        with contextlib.suppress(Exception):
            await engine.close()


async def one_token(engine: Engine) -> None:
    """Have it generate one token, however long that takes. Raises an EngineError."""
    await engine.generate(Request(_PROMPT, 1, Sampling(), (), "draftmill-ready"))
