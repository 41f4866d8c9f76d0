"""A start of a server of ours as it turned out: what it was given, and what its log said. The next plan rests on it."""

import msgspec


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``serve/starts.jsonl``. ``fraction`` and ``kv_space`` are what it was given, ``tokens`` what it
    holds, ``predicted`` what the plan said. ``free`` and ``left`` are bytes of a GPU: before the weights, and beside
    everything else. None where its log says nothing."""

    time: str
    kind: str
    model: str
    tp: int = 1
    pp: int = 1
    kv: str = "bf16"
    fraction: float | None = None
    kv_space: float | None = None
    tokens: int
    predicted: int | None = None
    free: float | None = None
    left: float | None = None

    def off(self) -> float | None:
        """How far off the plan was, as a share of what the server holds."""
        return self.predicted / self.tokens - 1 if self.predicted and self.tokens else None
