"""What the recipe's servers say of themselves just now, where they run."""

import asyncio
from collections.abc import Callable, Sequence

from draftmill.engines import connect
from draftmill.engines.protocol import Identity
from draftmill.errors import EngineError
from draftmill.recipe import EMBEDDED, EngineSpec

Tell = Callable[[str], None]


def identities(specs: Sequence[EngineSpec], tell: Tell) -> list[Identity]:
    """Ask every server that has a URL; ``tell`` hears of those that do not answer."""
    return asyncio.run(_ask([spec for spec in specs if spec.kind != EMBEDDED], tell))


async def _ask(specs: Sequence[EngineSpec], tell: Tell) -> list[Identity]:
    found = []
    for spec in specs:
        try:
            engine = await connect(spec)
            try:
                found.append(await engine.identify())
            finally:
                await engine.close()
        except EngineError as error:
            tell(error.message)
    return found
