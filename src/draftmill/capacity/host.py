"""Host memory: the hierarchical KV cache of SGLang, a rank and in all. It adds prefix reuse, and not one decode."""

from fractions import Fraction

GB = 10**9  # the unit of --hicache-size
A_RANK = 5 * GB  # of each rank process beside its cache: 40 GB of 8 ranks were seen while loading
OTHERS = 10 * 2**30  # what SGLang itself leaves to the rest of the machine
ONE_SENTENCE = (
    "hierarchical cache keeps prefixes for reuse and adds no decodes: a running request's KV must be on the GPU"
)


def in_all(size: float, ranks: int) -> float:
    """Bytes that ``--hicache-size`` takes: the figure is GB *a rank process*."""
    return size * GB * ranks


def reserve(ranks: int) -> float:
    """Bytes that must stay free beside it."""
    return max(OTHERS, ranks * A_RANK)


def fits(size: float, ranks: int, host: float) -> bool:
    """Whether the ranks' caches and the processes themselves fit a host of so many bytes."""
    return in_all(size, ranks) + reserve(ranks) <= host


def largest(ranks: int, host: float) -> int:
    """The largest whole --hicache-size that fits; 0 where none does."""
    return max(0, int((host - reserve(ranks)) // (ranks * GB)))


def of_ratio(ratio: float, pool: float) -> float:
    """What ``--hicache-ratio`` means as a size in GB a rank, for a device pool of so many bytes."""
    return ratio * pool / GB


def distinct_tokens(size: float, cell: Fraction) -> int:
    """Tokens that the caches hold. Each rank keeps its part of every token, or a replica: its cell counts."""
    return int(size * GB // cell)
