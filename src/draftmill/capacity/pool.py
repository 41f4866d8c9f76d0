"""How many tokens a server's KV cache holds, forecast from its memory, or from starts that were observed.

SGLang and vLLM divide memory alike: ``pool = free · fraction − loaded``, tokens = pool / cell. ``free`` is what
SGLang measures before it loads the weights (vLLM: the card's whole memory), ``loaded`` what weights and all else take
of it. So two observed starts fix both unknowns, and one start does where one of the two is known.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

import msgspec

from draftmill.capacity.kv import of_layer
from draftmill.capacity.shape import Shape

STATE_SHARE = Fraction(9, 10)  # SGLang's --mamba-full-memory-ratio: memory of states for each of the KV pool
VLLM_BLOCK, VLLM_CPU_BLOCK = 16, 128
_VLLM_BATCH = 8192  # tokens of one step: --max-num-batched-tokens
_LLAMACPP_STEP = 256  # llama.cpp rounds the context of a slot up to it


class Memory(msgspec.Struct, frozen=True):
    """``free`` and ``loaded`` in bytes a GPU; see above."""

    free: float
    loaded: float

    def pool(self, fraction: float) -> float:
        """Bytes left for the KV cache; negative where the weights alone do not fit."""
        return self.free * fraction - self.loaded

    def tokens(self, fraction: float, cell: Fraction, page: int = 1) -> int:
        """Tokens that SGLang reports: floored to its page size."""
        return max(0, floor(self.pool(fraction) / float(cell) / page + _EPSILON) * page)

    def least(self) -> float:
        """The fraction below which nothing is left."""
        return self.loaded / self.free


class Start(msgspec.Struct, frozen=True):
    """A start that was observed: the fraction it was given, the tokens it reported, the bytes of a token then."""

    fraction: float
    tokens: int
    cell: float
    page: int = 1


_EPSILON = 1e-9  # of a token: what binary fractions lose


def calibrate(starts: Sequence[Start], *, free: float | None = None, loaded: float | None = None) -> Memory:
    """Memory from what servers reported. Raises ValueError where that does not determine it.

    What a start reports was floored, so its pool lies half a page above it, give or take half a page: taking the middle
    makes two starts that lie far apart exact to a token in between. More than two are fitted by least squares.
    """
    pools = [(s.fraction, (s.tokens + s.page / 2) * s.cell) for s in starts]
    if not pools:
        raise ValueError("no start was observed")
    mean_f = sum(f for f, _ in pools) / len(pools)
    mean_pool = sum(pool for _, pool in pools) / len(pools)
    spread = sum((f - mean_f) ** 2 for f, _ in pools)
    if spread > 0:
        free = sum((f - mean_f) * (pool - mean_pool) for f, pool in pools) / spread
    elif free is None and loaded is not None:
        free = (mean_pool + loaded) / mean_f
    if free is None:
        raise ValueError("one observed start needs the card's free memory, or a second start at another fraction")
    loaded = free * mean_f - mean_pool
    if free <= 0 or loaded < -free / 20:  # less is what pages cost where two fractions lie close together
        raise ValueError("the observed starts contradict each other: more memory at a smaller fraction")
    return Memory(free, loaded)


def shared_with_states(pool: float) -> tuple[float, float]:
    """(bytes of the KV cache, bytes of states) of a pool in a model with linear attention: states take theirs first."""
    states = pool * float(STATE_SHARE / (1 + STATE_SHARE))
    return pool - states, states


def vllm_tokens(
    shape: Shape, dtype: str, pool: float, *, context: int, tp: int = 1, pp: int = 1, block: int = VLLM_BLOCK
) -> int:
    """Tokens that vLLM 0.32 reports for a pool of so many bytes (``v1/core/kv_cache_utils.py``).

    Layers of several kinds are split into groups of equally many layers, which draw blocks from one pool: a block is
    ``block`` tokens in as many layers as a group has. A request of the whole ``context`` takes its blocks in each
    group, those of a window no more than window and one batch need. What is reported is how many such requests fit,
    times the context.
    """
    counts = [ceil(g.count / pp) for g in shape.kept]
    size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
    widest = max(of_layer(g, dtype, tp) for g in shape.kept)
    blocks = floor(pool / float(widest * block * size) + _EPSILON)
    request = 0
    for group, count in zip(shape.kept, counts, strict=True):
        tokens = context if group.window is None else min(group.window - 1 + _VLLM_BATCH, context)
        request += ceil(count / size) * (ceil(tokens / block) + (group.window is not None))
    return max(0, int(blocks / request * context))


def llamacpp_context(context: int, slots: int) -> int:
    """Tokens in all that ``llama-server -c`` is given so that each slot gets at least ``context``."""
    return -(-context // _LLAMACPP_STEP) * _LLAMACPP_STEP * slots


def max_running(tokens: int, context: int) -> int:
    """SGLang's default ``max_running_requests``: clamp(512 · tokens / context, 2048 … 4096), at most tokens / 2."""
    return min(max(512 * tokens // context, 2048), 4096, tokens // 2)


def longest_prompt(tokens: int, context: int) -> int:
    """SGLang's ``max_req_input_len``; a prompt of this very length is refused."""
    return min(context, tokens) - 6
