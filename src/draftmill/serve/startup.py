"""What a server says while it starts: how many tokens it holds, how much memory was free before and after.

Lines are read by their names, never by their places: order, company and punctuation differ between versions. A later
line replaces an earlier one of the same kind, but for memory: of several ranks the one with the least counts.
"""

import re
from collections.abc import Iterable

import msgspec

_GIB = 2**30  # SGLang and vLLM write GB and count in GiB


class Startup(msgspec.Struct, frozen=True):
    """What the log said so far; None where it has not. ``free``, ``loaded`` and ``left`` are bytes of a GPU: free
    before the weights, taken by them, free once everything is there."""

    tokens: int | None = None
    free: float | None = None
    loaded: float | None = None
    left: float | None = None
    context: int | None = None
    slots: int | None = None


_NUMBER = r"([\d,]+)"
_TOKENS = (
    rf"max_total_num_tokens={_NUMBER}",  # SGLang
    rf"KV Cache is allocated\..*#tokens: {_NUMBER}",
    rf"(?:GPU|CPU) KV cache size: {_NUMBER} tokens",  # vLLM since 0.7
    rf"llama_context: n_ctx\s+= {_NUMBER}",  # llama.cpp where it is talkative
    rf"llama_new_context_with_model: n_ctx\s+= {_NUMBER}",
)
_BLOCKS = re.compile(rf"# (?:GPU|CPU|\w+) blocks: {_NUMBER}, # CPU blocks")  # vLLM before 0.7
_BLOCK = 16
_SLOTS_OF = re.compile(r"n_slots = (\d+), n_ctx_slot = (\d+)")  # llama.cpp
_PATTERNS: dict[str, tuple[str, ...]] = {
    "tokens": _TOKENS,
    "free": (r"Load weight begin\. avail mem=([\d.]+) GB",),
    "loaded": (
        r"Load weight end\..*mem usage=([\d.]+) GB",
        r"Model loading took ([\d.]+) Gi?B",
        r"Loading model weights took ([\d.]+) Gi?B",
    ),
    "left": (r"available_gpu_mem=([\d.]+) GB", r"Capture cuda graph end\..*avail mem=([\d.]+) GB"),
    "context": (r"context_len=(\d+)", rf"Maximum concurrency for {_NUMBER} tokens per request"),
    "slots": (r"max_running_requests=(\d+)", r"max_num_seqs[=:]\s?(\d+)", r"n_slots = (\d+)"),
}
_READ = {name: [re.compile(pattern) for pattern in patterns] for name, patterns in _PATTERNS.items()}
_BYTES = {"free": min, "loaded": max, "left": min}


def read(lines: Iterable[str]) -> Startup:
    """The figures of a start-up log."""
    found: dict[str, float] = {}
    for line in lines:
        for name, patterns in _READ.items():
            if (text := _first(patterns, line)) is None:
                continue
            if choose := _BYTES.get(name):
                value = float(text) * _GIB
                found[name] = choose(found.get(name, value), value)
            else:
                found[name] = int(text.replace(",", ""))
        if slots := _SLOTS_OF.search(line):
            found["tokens"], found["context"] = int(slots[1]) * int(slots[2]), int(slots[2])
        elif blocks := _BLOCKS.search(line):
            found["tokens"] = int(blocks[1].replace(",", "")) * _BLOCK
    return msgspec.convert(found, Startup)


def _first(patterns: list["re.Pattern[str]"], line: str) -> str | None:
    return next((match[1] for pattern in patterns if (match := pattern.search(line))), None)
