"""How many requests a KV cache holds at once."""

from collections.abc import Sequence

import msgspec

from draftmill.capacity.lengths import Lengths


class Part(msgspec.Struct, frozen=True):
    """One class of requests in a mix: how many of them there are, their prompts' mean, their answers."""

    requests: float
    prompt: float
    answers: Lengths

    @property
    def held(self) -> float:
        """Tokens that one holds on average while it runs: p + E[L²] / 2E[L]; its final length only at its end."""
        return self.prompt + self.answers.running


def held(parts: Sequence[Part]) -> float:
    """Tokens that a running request of the mix holds on average. A class is under way in proportion to its requests and
    to how long each takes, hence to requests · E[L]."""
    weight = sum(p.requests * p.answers.mean for p in parts)
    if not weight:
        raise ValueError("nothing is to be generated")
    return sum(p.requests * p.answers.mean * p.held for p in parts) / weight


def fit(tokens: int, held: float) -> int:
    """Decodes that a pool of so many tokens holds, at so many tokens each."""
    return int(tokens // held)
