"""What lower precision and moved weights do to the figures that a replay judges by: the thresholds of verify/likeness.

The embedded engine serves the small model in float32 and generates answers; it and each other form of the same model
then tell their distributions at every id of them. So the differences hold no chance of a draw: what is printed is what
a replay by the float32 engine would see in endless rows of each other form.

  apart     mean absolute difference of the log-probabilities of the ids, nats
  KL        of the other form's distribution against float32's, over the listed ids and the rest as one, nats
  surplus   by which the mean log-probability of the other form's ids is off (replay-likelihood), nats an id, with the
            standard error that so many places leave
  seen in   ids that it takes to see that at four standard errors: sampled ids scatter by more than a nat each
  by both   ids that it would take who has both engines, by the likelihood ratio, for odds of 16,000
  share     of its ids that is more or less outside of the likeliest 20 (replay-unlisted)
  parted    greedy ids that are not float32's likeliest, by more than a near-tie
  below     by how much greedy ids lie below the likeliest, on average and at worst, nats

Usage: bench_replay.py [TEMPERATURE [IDS [FORM …]]]     (1 400, all forms)
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from draftmill.engines.embedded import Embedded
from draftmill.engines.protocol import Request, Scored
from draftmill.engines.small_model import small_model
from draftmill.recipe import Sampling
from draftmill.records import Conversation
from draftmill.render import tokenizer
from draftmill.render.template import ChatTemplate
from draftmill.verify.likeness import SURE, TIE

RETYPE = Path(__file__).parent.parent / "scripts/engines/retype_gguf.py"
FORMS = {  # of quantised ones all but Q4_1 are quantised anew, from what that says
    "F16": ("F16",),
    "BF16": ("BF16",),
    "Q8_0": ("Q8_0",),
    "Q4_1": (),
    "Q5_1": ("Q5_1",),
    "Q4_0": ("Q4_0",),
    "moved 1 %": ("F32", "0.01"),
    "moved 2 %": ("F32", "0.02"),
    "moved 5 %": ("F32", "0.05"),
    "moved 10 %": ("F32", "0.1"),
}
LISTED, SHOWN, LENGTH, SLOTS = 40, 20, 40, 4
ODDS = np.log(16_000)
THINGS = ("tea", "a glacier", "rust", "a violin", "fog", "chess", "bread", "a comet", "moss", "iron")
ASKS = ("Tell me about {}.", "Write a short poem about {}.", "Write a Python class for {}.")

Rows = list[tuple[list[int], list[int]]]


async def serve(gguf: Path) -> Embedded:
    return await Embedded.start(gguf, slots=SLOTS, context=256)


async def answers(gguf: Path, prompts: list[list[int]], sampling: Sampling) -> Rows:
    engine = await serve(gguf)
    asked = [Request(p, LENGTH, sampling, (2, 0), str(n), seed=n) for n, p in enumerate(prompts)]
    replies = await asyncio.gather(*map(engine.generate, asked))
    await engine.close()
    return [(prompt, list(reply.output_ids)) for prompt, reply in zip(prompts, replies, strict=True)]


async def scores(gguf: Path, rows: Rows) -> list[Scored]:
    engine, gate = await serve(gguf), asyncio.Semaphore(SLOTS)

    async def one(prompt: list[int], answer: list[int]) -> Scored:
        async with gate:
            return await engine.score(prompt + answer, len(prompt), LISTED)

    try:
        return list(await asyncio.gather(*(one(*row) for row in rows)))
    finally:
        await engine.close()


def compare(reference: list[Scored], other: list[Scored], power: float) -> str:
    apart, kl, surplus, spread, share, gaps = [], [], [], [], [], []
    for one, two in zip(reference, other, strict=True):
        apart += [abs(a - b) for a, b in zip(one.logprobs, two.logprobs, strict=True)]
        for p, q in zip(one.top or [], two.top or [], strict=True):
            both = [id for id in p if id in q]
            a, b = np.array([p[id] for id in both]), np.array([q[id] for id in both])
            rest = [max(1e-9, 1 - np.exp(logs).sum()) for logs in (a, b)]
            kl.append(float((np.exp(b) * (b - a)).sum() + rest[1] * np.log(rest[1] / rest[0])))
            shown = [id for id in list(p)[:SHOWN] if id in q]
            a, b = (power * np.array([of[id] for id in shown]) for of in (p, q))
            share.append(float(np.exp(a).sum() - np.exp(b).sum()) if power == 1 else 0.0)
            a, b = a - np.logaddexp.reduce(a), b - np.logaddexp.reduce(b)
            surplus.append(float(((np.exp(b) - np.exp(a)) * a).sum()))
            spread.append(float((np.exp(a) * a**2).sum() - (np.exp(a) * a).sum() ** 2))
            chosen = next(iter(q))
            gaps.append(max(p.values()) - p.get(chosen, min(p.values())))
    parted, off = np.array(gaps), float(np.mean(surplus))
    error = float(np.std(surplus) / np.sqrt(len(surplus)))
    seen = SURE**2 * float(np.mean(spread)) / max(abs(off), 2 * error, 1e-9) ** 2  # of what is noise: at least
    return (
        f"{np.mean(apart):8.4f} {np.mean(kl):8.4f} {off:+9.4f} ± {error:.4f} {'>' if abs(off) < 2 * error else ' '}"
        f"{seen:11,.0f} {ODDS / max(float(np.mean(kl)), 1e-9):9,.0f} {np.mean(share):+8.4f}"
        f" {(parted > TIE).mean():8.2%} {parted.mean():8.4f} {parted.max():7.2f}"
    )


def main() -> None:
    temperature = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    forms = sys.argv[3:] or list(FORMS)
    loaded = tokenizer.load(str(small_model()))
    template = ChatTemplate(loaded, "2026-01-01")
    asks = [ask.format(thing) for thing in THINGS for ask in ASKS][: number // LENGTH]
    prompts = loaded.encode([template.text(Conversation([{"role": "user", "content": ask}]), {}) for ask in asks])
    with tempfile.TemporaryDirectory() as folder:
        exact, out = Path(folder) / "f32.gguf", Path(folder) / "model.gguf"
        subprocess.run([sys.executable, RETYPE, small_model(), exact, "F32"], check=True)
        rows = asyncio.run(answers(exact, prompts, Sampling(temperature=temperature)))
        reference = asyncio.run(scores(exact, rows))
        print(f"{sum(len(answer) for _, answer in rows)} ids at temperature {temperature:g}")
        print(
            f"{'':>10} {'apart':>8} {'KL':>8} {'surplus':>18} {'seen in':>12} {'by both':>9} {'share':>8} {'parted':>8}"
            f" {'below':>8} {'worst':>7}"
        )
        for name in forms:
            change = FORMS[name]
            if change:
                subprocess.run([sys.executable, RETYPE, small_model(), out, *change], check=True)
            other = asyncio.run(scores(out if change else small_model(), rows))
            print(f"{name:>10} {compare(reference, other, 1 / (temperature or 1.0))}", flush=True)


if __name__ == "__main__":
    main()
