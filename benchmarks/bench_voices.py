"""How far engines of the same weights are apart, and engines of others: the figures behind ``engine_tolerance``.

Every engine scores the passages that a run of several engines compares them by; printed is the mean absolute
difference of the log-probabilities for each pair. Without arguments the embedded engine serves the small model as it is
(Q4_1), in other types, and with its weights moved by a little.

Usage: bench_voices.py [NAME=URL | NAME=FILE.gguf ...]
"""

import asyncio
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

from draftmill.engines import connect
from draftmill.engines.retype import retype
from draftmill.engines.small_model import small_model
from draftmill.engines.voice import Passage, Voice, distance, hear
from draftmill.mill.voices import passages
from draftmill.recipe import EngineSpec
from draftmill.render import tokenizer
from draftmill.render.template import ChatTemplate

TYPES = {
    "F32": ("F32", 0.0),
    "F16": ("F16", 0.0),
    "BF16": ("BF16", 0.0),
    "Q8_0": ("Q8_0", 0.0),
    "Q5_1": ("Q5_1", 0.0),
    "moved 0.2 %": ("F32", 0.002),
    "moved 0.5 %": ("F32", 0.005),
    "moved 1 %": ("F32", 0.01),
    "moved 2 %": ("F32", 0.02),
}


async def listen(name: str, where: str, asked: list[Passage]) -> Voice:
    url = where.startswith("http")
    spec = EngineSpec(url=where) if url else EngineSpec(kind="embedded", slots=1, context=512)
    engine = await connect(spec, gguf=None if url else Path(where))
    try:
        began = time.perf_counter()
        voice = await hear(engine, asked)
        print(f"  {name:>12}: {len(voice.said)} ids in {time.perf_counter() - began:.1f} s", flush=True)
    finally:
        await engine.close()
    return Voice(name, voice.said)


def main() -> None:
    loaded = tokenizer.load(str(small_model()))
    asked = passages(loaded, ChatTemplate(loaded, "2026-01-01"), {})
    given = [argument.partition("=")[::2] for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        if given:
            voices = [asyncio.run(listen(name, where, asked)) for name, where in given]
        else:
            voices = [asyncio.run(listen("Q4_1", str(small_model()), asked))]
            out = Path(folder) / "model.gguf"
            for name, change in TYPES.items():
                retype(small_model(), out, *change)
                voices.append(asyncio.run(listen(name, str(out), asked)))
    for apart, one, other in sorted((distance(a, b), a.engine, b.engine) for a, b in combinations(voices, 2)):
        print(f"  {one:>12} {other:>12} {apart:.4f}")


if __name__ == "__main__":
    main()
