"""What the engines of a run are called: in its events, and by those that read them."""

import re
from collections import Counter
from collections.abc import Iterable

from draftmill.recipe.fit import EMBEDDED
from draftmill.recipe.model import EngineSpec


def named(specs: Iterable[EngineSpec]) -> dict[str, EngineSpec]:
    """By URL; embedded ones are numbered from the second on."""
    seen: Counter[str] = Counter()
    found = {}
    for spec in specs:
        name = spec.url or EMBEDDED
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name}-{seen[name]}"] = spec
    return found


def is_embedded(name: str) -> bool:
    """Whether this is an embedded engine's."""
    return re.fullmatch(rf"{EMBEDDED}(-\d+)?", name) is not None
