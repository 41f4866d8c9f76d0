"""What a plan refuses, each by a rule: settings that a server starts with, or seems to, and that cost a run."""

import msgspec

from draftmill.capacity import host as host_memory
from draftmill.capacity.headroom import GIB, highest_fraction
from draftmill.capacity.headroom import left as left_free
from draftmill.capacity.kv import WHOLE
from draftmill.capacity.pool import Memory, longest_prompt

_ROUND = 1e-9


class Refusal(msgspec.Struct, frozen=True):
    """``rule`` names it for scripts; the other two are for people."""

    rule: str
    message: str
    advice: str


def hicache(size: float, ranks: int, host: float | None) -> Refusal | None:
    """A hierarchical cache that all ranks together cannot have on a host of so many bytes."""
    if size > 0 and host is None:
        total = host_memory.in_all(size, ranks) / host_memory.GB
        return Refusal(
            "hicache",
            f"hicache {size:g} is GB a rank, {total:,.0f} GB in all, and nobody says what the host has",
            "give host_memory, for example host_memory=449GB",
        )
    if host is None or size <= 0 or host_memory.fits(size, ranks, host):
        return None
    total = host_memory.in_all(size, ranks) / host_memory.GB
    beside = host_memory.reserve(ranks) / host_memory.GB
    most = host_memory.largest(ranks, host)
    return Refusal(
        "hicache",
        f"hicache {size:g} is GB a rank: {ranks} ranks take {total:,.0f} GB in all, and beside {beside:.0f} GB for "
        f"their processes the host has {max(0.0, host / host_memory.GB - beside):,.0f} GB",
        f"at most hicache {most} fits" if most else "leave hicache away: none fits",
    )


def headroom(free: float, fraction: float, graphs: float, needed: float, requests: int) -> Refusal | None:
    """A fraction that leaves less than a prefill needs once the graphs are captured. All in bytes a GPU."""
    left = left_free(free, fraction, graphs)
    if left >= needed - _ROUND:
        return None
    best = highest_fraction(free, graphs, needed)
    return Refusal(
        "headroom",
        f"mem_fraction {fraction:g} leaves {max(0.0, left) / GIB:.2f} GiB a GPU once graphs have taken "
        f"{graphs / GIB:.1f}; a prefill with {requests} requests at once needs {needed / GIB:.2f} GiB",
        f"at most mem_fraction {best:.2f} leaves that" if best > 0 else "use more GPUs for each replica",
    )


def no_pool(memory: Memory, fraction: float, *, given: bool) -> Refusal | None:
    """A fraction that the weights use up, above all the server's own default."""
    if memory.pool(fraction) > 0:
        return None
    least = memory.least()
    whose = f"mem_fraction {fraction:g}" if given else f"the server's default fraction, about {fraction:g},"
    return Refusal(
        "no_pool",
        f"{whose} leaves no KV cache at all: the weights take {memory.loaded / GIB:.1f} of {memory.free / GIB:.1f} GiB",
        f"the KV cache begins at mem_fraction {least:.3f}: set it well above" if least < 0.95 else "use more GPUs",
    )


def room(loaded: float, pool: float, there: float | None) -> Refusal | None:
    """A pool of a size given outright that does not fit beside the weights."""
    if there is None or loaded + pool <= there:
        return None
    return Refusal(
        "no_room",
        f"weights of {loaded / GIB:.1f} GiB and a KV cache of {pool / GIB:.1f} GiB do not fit {there / GIB:.1f} GiB",
        "lower the context, the slots or kv_space",
    )


def quantised(dtype: str) -> Refusal | None:
    """A KV cache in which the target is no longer quite itself."""
    if dtype in WHOLE:
        return None
    sides = f"embedded embedded:kv={dtype}" if dtype.startswith("q") else "URL_WITHOUT URL_WITH"
    return Refusal(
        "quantised_kv",
        f"a KV cache in {dtype} changes what the target says, and so the data",
        f"`draftmill compare {sides}` says by how much; use it only if that passes, or if production serves it too",
    )


def token_limit(lane: str, limit: int, tokens: int, context: int) -> Refusal | None:
    """A lane's limit that no request can reach: servers cut it without a word."""
    room = longest_prompt(tokens, context)
    if limit <= room:
        return None
    return Refusal(
        "token_limit",
        f"lane {lane} allows {limit:,} new tokens; prompt and answer of a request share {max(0, room):,} at the server",
        "lower max_new_tokens, or give the server a larger context or pool",
    )


def prompt(longest: int, where: str, tokens: int, context: int) -> Refusal | None:
    """A prompt that the server refuses."""
    room = longest_prompt(tokens, context)
    if longest < room:
        return None
    what = "context" if context <= tokens else "KV cache"
    return Refusal(
        "context",
        f"the longest prompt ({where}) has {longest:,} tokens, the server's {what} takes less than {max(0, room):,}",
        "give the server a larger context" if what == "context" else "give the server a larger pool",
    )


def drafter_flag(algorithm: str | None, eagle3: bool) -> Refusal | None:
    """An EAGLE-3 drafter under the flag of the first EAGLE: it gets one layer's state instead of three."""
    if algorithm != "EAGLE" or not eagle3:
        return None
    return Refusal(
        "drafter_flag",
        "an EAGLE-3 drafter under --speculative-algorithm EAGLE is served without a word, and none of it is accepted",
        "write algorithm: EAGLE3",
    )
