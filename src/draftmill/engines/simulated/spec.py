"""What a simulated server is: its KV pool, its speed, its limits."""

from collections.abc import Sequence

import msgspec


class Speed(msgspec.Struct, frozen=True):
    """A decode step of ``n`` sequences takes ``base + per_sequence · n`` seconds: the weights and collectives, and what
    each sequence adds."""

    base: float
    per_sequence: float

    def step(self, running: float) -> float:
        """Seconds of one decode step."""
        return self.base + self.per_sequence * running

    def rate(self, running: float) -> float:
        """Generated tokens a second."""
        return running / self.step(running)


def fit(points: Sequence[tuple[float, float]]) -> Speed:
    """The speed of a server from its own history: (sequences running, tokens a second), at two loads or more.

    Least squares on the step time ``running / rate``, which is linear in ``running``.
    """
    steps = [(n, n / rate) for n, rate in points]
    mean_n = sum(n for n, _ in steps) / len(steps)
    mean_step = sum(step for _, step in steps) / len(steps)
    spread = sum((n - mean_n) ** 2 for n, _ in steps)
    if not spread:
        raise ValueError("a speed needs two different loads")
    slope = sum((n - mean_n) * (step - mean_step) for n, step in steps) / spread
    return Speed(base=mean_step - slope * mean_n, per_sequence=slope)


class ServerSpec(msgspec.Struct, frozen=True):
    """One server. Seconds and tokens; None where there is no such limit.

    ``chunk`` is the most prompt tokens of one prefill pass. A pass of more than ``most_prefills`` requests, or of more
    than ``most_prefill_tokens`` tokens, kills the server (out of memory); it is back after ``restart`` seconds, or not
    at all. ``prefix_cache`` costs hashing, so it is off where nothing is shared.
    """

    kv_tokens: int = 159_277
    speed: Speed = Speed(0.0415, 0.00044)
    prefill_rate: float = 12_000.0
    chunk: int = 8192
    context: int = 262_144
    max_running: int = 2048
    max_queued: int | None = None
    most_prefills: int | None = None
    most_prefill_tokens: int | None = None
    restart: float | None = None
    prefix_cache: bool = False
    model: str = "simulated"
    weights: str = "default"
    version: str = "0.5.23"
    kv_dtype: str = "auto"

    @property
    def max_prompt(self) -> int:
        """``max_req_input_len`` of SGLang: a prompt of this very length is refused already."""
        return min(self.context, self.kv_tokens) - 6
