"""Why a server died: from its exit code, the end of its log and what the kernel said. A pure function.

A wording is an exact piece of what SGLang 0.4 to 0.5, vLLM 0.6 to 0.32, PyTorch or llama.cpp write. The first reason of
the table whose wording stands in the log is the one: what is specific stands before what follows from it.
"""

import re
import signal
from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Reason(StrEnum):
    """What a server died of."""

    GPU_MEMORY = "gpu_memory"
    HOST_MEMORY = "host_memory"
    NO_POOL = "no_pool"
    TAKEN = "memory_taken"
    FLAG = "flag"
    PORT = "port"
    MODEL = "model"
    COMMAND = "command"
    SIGNAL = "signal"
    STUCK = "stuck"
    UNKNOWN = "unknown"


class Death(msgspec.Struct, frozen=True):
    """``evidence`` is the line that says so."""

    reason: Reason
    evidence: str


_WORDINGS: tuple[tuple[Reason, tuple[str, ...]], ...] = (
    (
        Reason.NO_POOL,
        (
            r"Not enough memory\. Please try to increase --mem-fraction-static",  # SGLang
            r"Loaded weights leave no GPU memory for the KV cache",
            r"No available memory for the cache blocks",  # vLLM
            r"KV cache is needed, which is larger than the available KV cache",
            r"max seq len \(\d+\) is larger than the maximum number of tokens that can be stored in KV cache",
        ),
    ),
    (
        Reason.TAKEN,
        (
            r"Free memory on device .* is less than desired GPU memory utilization",  # vLLM
            r"The memory capacity is unbalanced",  # SGLang: some of the GPUs are in use
        ),
    ),
    (
        Reason.GPU_MEMORY,
        (
            r"CUDA out of memory",
            r"HIP out of memory",
            r"CUDA error: out of memory",
            r"torch\.(?:cuda\.)?OutOfMemoryError",
            r"cudaMalloc failed: out of memory",  # llama.cpp
            r"failed to allocate CUDA\d+ buffer",
            r"CUBLAS_STATUS_ALLOC_FAILED",
            r"NCCL.*[Cc]uda failure.*out of memory",
        ),
    ),
    (
        Reason.HOST_MEMORY,
        (
            r"Not enough host memory",  # SGLang's hierarchical cache
            r"DefaultCPUAllocator: (?:can't|not enough) (?:allocate )?memory",
            r"std::bad_alloc",
            r"^(?:\S+ )*MemoryError\b",
            r"Cannot allocate memory",  # ENOMEM
            r"ggml_aligned_malloc: insufficient memory",  # llama.cpp
            r"failed to allocate CPU buffer",
            r"cudaHostAlloc.*out of memory|cudaErrorHostMemory",
        ),
    ),
    (
        Reason.PORT,
        (
            r"[Aa]ddress already in use",
            r"[Pp]ort (?:\d+ )?is already in use",
            r"couldn't bind HTTP server socket",  # llama.cpp
            r"Port \d+ .*not available",
        ),
    ),
    (
        Reason.FLAG,
        (
            r"error: unrecognized arguments",  # argparse
            r"error: argument \S+.*: (?:invalid|expected|ignored|not allowed)",
            r"error: ambiguous option",
            r"error: the following arguments are required",
            r"error: invalid argument",  # llama.cpp
            r"error while handling argument",
            r"validation errors? for \w*(?:Config|Args)\b(?![\s\S]*(?:config\.json|Repo id))",  # vLLM's pydantic
        ),
    ),
    (
        Reason.MODEL,
        (
            r"failed to open GGUF file",  # llama.cpp
            r"error loading model",
            r"failed to load model",
            r"does not appear to have a file named",  # transformers
            r"is not a local folder and is not a valid model identifier",
            r"Can't load (?:the )?(?:configuration|config|tokenizer)",
            r"We couldn't connect to 'https://huggingface\.co'",
            r"Invalid repository ID or local directory specified",  # vLLM
            r"Repo id must (?:be in the form|use alphanumeric)",
            r"(?:Repository|Revision|LocalEntry|Entry)NotFoundError|GatedRepoError|OfflineModeIsEnabled",
            r"Cannot find any model weights|Cannot find .* in the model|Unrecognized model in",
            r"Model architectures? .* (?:is|are) not supported|Unsupported architectures?",
            r"HeaderTooLarge|SafetensorError|InvalidHeaderDeserialization",
        ),
    ),
    (
        Reason.COMMAND,
        (
            r"python\S*: No module named",
            r"Error while finding module specification",
            r"PackageNotFoundError: ",
            r"ModuleNotFoundError: ",
        ),
    ),
)
_TABLE = tuple((reason, [re.compile(text) for text in texts]) for reason, texts in _WORDINGS)
_KILLED = re.compile(r"exit ?code:? ?-9\b|exitcode=-9|SIGKILL", re.IGNORECASE)
_OWN_END = re.compile(r"Received sigquit from a child process|kill_process_tree called")  # SGLang ends by SIGKILL
_HOPELESS = re.compile(r"EngineCore failed to start|Engine core initialization failed|Scheduler hit an exception")
_EAGAIN = re.compile(r"Resource temporarily unavailable")
_CODE = re.compile(r"\s*(?:\(.*?\) .*?)?\s(?:raise|return) |\s*raise ")  # a line of source in a traceback
_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b: |\berror: | E ", re.ASCII)
_LONG = 300  # characters of a line that is shown


# what only a start can die of: afterwards such a line is about something else
_OF_A_START = {Reason.NO_POOL, Reason.TAKEN, Reason.PORT, Reason.FLAG, Reason.MODEL, Reason.COMMAND}


def why(code: int | None, tail: Sequence[str], kernel: Sequence[str] = (), *, served: bool = False) -> Death:
    """The reason of a death. ``code`` is negative for a signal, above 128 where a shell passed one on; ``tail`` the
    last lines of the log of this start; ``kernel`` what the kernel said of memory since then; ``served`` whether it
    had been ready."""
    number = _signal(code)
    if kernel and (number == signal.SIGKILL or any(map(_KILLED.search, tail))):
        return Death(Reason.HOST_MEMORY, kernel[-1][:_LONG])
    for reason, patterns in _TABLE:
        if served and reason in _OF_A_START:
            continue
        for line in tail:
            if not _CODE.match(line) and any(pattern.search(line) for pattern in patterns):
                return Death(reason, line.strip()[:_LONG])
    if number == signal.SIGABRT and (refused := next(filter(_EAGAIN.search, tail), None)):
        return Death(Reason.HOST_MEMORY, f"no more threads: {refused.strip()}"[:_LONG])
    if number is not None and not any(map(_OWN_END.search, tail)):
        return Death(Reason.SIGNAL, f"ended by {signal.Signals(number).name}")
    said = [line.strip() for line in tail if line.strip()]
    last = next(filter(_ERROR.search, reversed(said)), said[-1] if said else "its log is empty")
    how = "" if code is None else f"exit code {code}: "
    return Death(Reason.UNKNOWN, f"{how}{last}"[:_LONG])


def failed(tail: Sequence[str]) -> Death | None:
    """Why a server that still runs will never be ready, as far as its log says so: some hang at their own end."""
    death = why(None, tail)
    if death.reason is not Reason.UNKNOWN:
        return death
    return death if any(_HOPELESS.search(line) for line in tail) else None


def _signal(code: int | None) -> int | None:
    number = -code if code is not None and code < 0 else code - 128 if code is not None and code > 128 else None
    return number if number in {s.value for s in signal.Signals} else None
