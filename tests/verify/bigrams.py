"""A language model of one matrix, served in process: it tells what servers tell, and its distributions are known.
For statistics, never for proving a protocol."""

import numpy as np

from draftmill.engines.protocol import Identity, Reply, Request, Scored
from draftmill.recipe import Sampling
from draftmill.records import Finish
from draftmill.verify.replay import Asked
from tests.mill.scripted import ScriptedEngine

VOCABULARY = 300


class Bigrams(ScriptedEngine):
    """The logits of an id depend on the id before; ``moved`` adds noise to them, as lower precision does."""

    def __init__(self, seed: int = 0, moved: float = 0.0) -> None:
        super().__init__(name="bigrams")
        logits = 2.5 * np.random.default_rng(seed).standard_normal((VOCABULARY, VOCABULARY))
        logits += moved * np.random.default_rng(99).standard_normal(logits.shape)
        self.logs = logits - np.logaddexp.reduce(logits, axis=1)[:, None]

    async def identify(self) -> Identity:
        return Identity(kind="vllm", name=self.name)

    async def score(self, ids: list[int], start: int, top: int = 0) -> Scored:
        logs = self.logs[ids[start - 1 : -1]]
        best = np.argsort(-logs, axis=1)[:, :top]
        listed = [dict(zip(row.tolist(), of[row].tolist(), strict=True)) for row, of in zip(best, logs, strict=True)]
        return Scored(logs[np.arange(len(logs)), ids[start:]].tolist(), listed)

    async def generate(self, request: Request, on_ids: object = None) -> Reply:
        ids = self.answer(list(request.prompt_ids)[-1], request.sampling, request.limit, np.random.default_rng(0))
        return Reply(ids, len(request.prompt_ids), len(ids), Finish.LENGTH)

    def answer(self, last: int, sampling: Sampling, number: int, random: np.random.Generator) -> list[int]:
        """As servers sample: temperature, top-k, top-p, min-p. Written without a look at ``verify.draws``."""
        found: list[int] = []
        for _ in range(number):
            logs = self.logs[last]
            if sampling.temperature == 0:
                last = int(logs.argmax())
            else:
                p = np.exp(logs / sampling.temperature)
                p /= p.sum()
                order = np.argsort(-p)
                if sampling.top_k > 0:
                    p[order[sampling.top_k :]] = 0
                    p /= p.sum()
                before = np.cumsum(p[order]) - p[order]
                p[order[before >= sampling.top_p]] = 0
                p[p < sampling.min_p * p.max()] = 0
                last = int(random.choice(VOCABULARY, p=p / p.sum()))
            found.append(last)
        return found

    def rows(self, sampling: Sampling, seed: int = 0, number: int = 30, length: int = 50) -> list[Asked]:
        """Answers of this model, told to have been sampled so."""
        random = np.random.default_rng(seed)
        prompts = random.integers(VOCABULARY, size=(number, 3)).tolist()
        return [
            Asked("chat", n, prompt, self.answer(prompt[-1], sampling, length, random), sampling)
            for n, prompt in enumerate(prompts)
        ]
