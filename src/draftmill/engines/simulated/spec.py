"""What a simulated server is: its KV pool, its speed, its limits."""

import msgspec

from draftmill.capacity.speed import Speed


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
