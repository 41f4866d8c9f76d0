"""What other types of KV cache and of weights change of what the small model says.

A is the embedded engine as it is (Q4_1 weights, f16 KV); B is the same in each of the settings below, the first of them
nothing else than A once more. Every one is compared as `draftmill compare` does.

Usage: bench_compare.py [PROMPTS [TOKENS]]     (24 24)
"""

import asyncio
import sys
import time

from draftmill import examples
from draftmill.cli.compare import target_of
from draftmill.compare.comparison import Comparison, compare
from draftmill.compare.hear import Plan, hear
from draftmill.compare.questions import of_files
from draftmill.compare.setting import Setting, of_spec
from draftmill.compare.verdict import TOLERANCE
from draftmill.engines.protocol import Engine
from draftmill.recipe import SMALL_MODEL, EngineSpec

SHAPE = {"kind": "embedded", "slots": 4, "context": 768, "threads": 2}
SETTINGS: dict[str, dict[str, str]] = {
    "f16 KV, again": {},
    "KV q8_0": {"kv": "q8_0"},
    "KV q4_0": {"kv": "q4_0"},
    "weights Q4_0": {"weights": "q4_0"},
    "KV q5_1": {"kv": "q5_1"},
    "weights Q8_0": {"weights": "q8_0"},
    "weights Q5_1": {"weights": "q5_1"},
}


def main() -> None:
    prompts, tokens = (int(argument) for argument in (*sys.argv[1:], "24", "24")[:2])
    target = target_of(SMALL_MODEL, [], trusted=False)
    files = sorted(map(str, examples.QUICKSTART.glob("*.jsonl")))
    chosen = of_files(files, target.tokenizer, target.dialect, prompts, 0, 768 - tokens)
    plan = Plan(chosen.questions, tokens, target.stop_ids, target.tokenizer.size)

    def setting(name: str, **values: str) -> Setting:
        return of_spec(name, EngineSpec.model_validate(SHAPE | values), target.gguf, _nothing)

    print(
        f"{prompts} prompts of {sum(len(q.ids) for q in plan.questions) / prompts:.0f} ids, {tokens} tokens an answer"
    )
    print("| B | refused, A to A | A to B | excess | interval | nats | KL | other top | greedy | verdict |")
    for name, values in SETTINGS.items():
        began = time.monotonic()
        a, b = setting("A"), setting(name, **values)
        heard = asyncio.run(hear(a.opened, b.opened, plan, lambda *_: None))
        sides = (("A", a.identity), (name, b.identity))
        seconds = time.monotonic() - began
        print(_line(name, compare(plan, heard, sides, tolerance=TOLERANCE, calls=None, seconds=seconds)), flush=True)


def _line(name: str, done: Comparison) -> str:
    by = {effect.name: effect for effect in done.effects}
    refused = by["refused"]
    parts = [name, f"{refused.base:.2%}", f"{refused.value:.2%}", f"{refused.excess.value:.2%}"]
    parts.append(f"{refused.excess.low:.2%} to {refused.excess.high:.2%}")
    parts += [f"{by[each].excess.value:.4f}" for each in ("log-probability", "KL")]
    parts += [f"{by['other top'].excess.value:.2%}", f"{done.partings[-1].share:.0%}", done.verdict.value]
    return f"| {' | '.join(parts)} |   {done.seconds:.0f} s"


async def _nothing(engine: Engine) -> None:
    pass


if __name__ == "__main__":
    main()
