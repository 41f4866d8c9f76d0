"""What follows from a death: the same server again, one with less, or the end with what a person has to do."""

from math import floor

import msgspec
from msgspec.structs import replace

from draftmill.capacity.launch import Launch
from draftmill.serve.reason import Death, Reason

BACKOFFS = 3  # times that a setting is lowered before a person has to look
CRASHES = 5  # restarts without STEADY seconds of service between them
FAILED_STARTS = 2  # restarts in a row after which it was never ready
STEADY = 600.0  # seconds of service after which a crash is a new story
_PAUSES = (1.0, 2.0, 5.0, 15.0, 60.0)  # seconds before a restart; the last one repeats
_STEP = {"sglang": 0.02, "vllm": 0.03}  # of the memory: about one prefill's peak of a large model
_LEAST = 0.1  # a fraction below which nothing is tried
_GIB = 2**30

ADVICE = {
    Reason.GPU_MEMORY: "lower mem_fraction (or kv_space, slots) in the recipe's plan, or use more GPUs",
    Reason.HOST_MEMORY: "give it more memory, or lower hicache, kv_space, context or slots in the recipe's plan",
    Reason.NO_POOL: "raise mem_fraction, lower the context, or use more GPUs: `draftmill plan` says what is left",
    Reason.TAKEN: "end what holds the GPUs' memory, or name other ones in `plan: devices`",
    Reason.FLAG: "this version does not know the option: mend `plan: options`, or name another `plan: command`",
    Reason.PORT: "end what listens there, or give the engine another port in the recipe's engines",
    Reason.MODEL: "is the path or hub id right, the download whole, and the model known to this version?",
    Reason.COMMAND: "name the executable of the environment that it is installed in with `plan: command`",
    Reason.SIGNAL: "its log says what it was doing; a crash that comes again belongs to the server's own issues",
    Reason.STUCK: "its log says where it stands still; --stall gives it longer",
    Reason.UNKNOWN: "its log says more",
}


class Again(msgspec.Struct, frozen=True):
    """Start this, after so many seconds. ``backed_off`` says in words what was lowered, "" where nothing was."""

    launch: Launch
    pause: float
    backed_off: str = ""


class Stop(msgspec.Struct, frozen=True):
    """No further try."""

    advice: str


class Past(msgspec.Struct, frozen=True):
    """What a server has gone through: ``crashes`` since it last served long enough, ``failed`` starts in a row,
    ``backoffs`` in all."""

    crashes: int = 0
    failed: int = 0
    backoffs: int = 0

    def after(self, *, served: float | None, memory: bool) -> "Past":
        """With one more death, ``served`` seconds after it was ready (None: never)."""
        steady = served is not None and served >= STEADY
        return Past(
            crashes=1 if steady else self.crashes + 1,
            failed=self.failed + 1 if served is None else 0,
            backoffs=self.backoffs + memory,
        )


def after(death: Death, launch: Launch, past: Past, *, default: float | None = None) -> Again | Stop:
    """What to do now. ``past`` includes this death; ``default`` is the fraction that the server takes where it is given
    none."""
    match death.reason:
        case Reason.GPU_MEMORY | Reason.HOST_MEMORY:
            lower = backed_off(launch, death.reason, default)
            if lower is None or past.backoffs > BACKOFFS:
                return Stop(ADVICE[death.reason])
            return Again(lower[0], _PAUSES[0], lower[1])
        case Reason.SIGNAL | Reason.UNKNOWN | Reason.STUCK | Reason.TAKEN:
            if past.crashes > CRASHES or past.failed > FAILED_STARTS:
                return Stop(ADVICE[death.reason])
            return Again(launch, _PAUSES[min(past.crashes, len(_PAUSES)) - 1])
        case _:
            return Stop(ADVICE[death.reason])


def backed_off(launch: Launch, reason: Reason, default: float | None = None) -> tuple[Launch, str] | None:
    """The next lower setting, and what it is in words; None where there is none that would help."""
    if reason is Reason.HOST_MEMORY and launch.hicache >= 1:
        size = floor(launch.hicache * 0.75)
        return replace(launch, hicache=float(size)), f"hicache {launch.hicache:g} → {size}"
    if launch.kind == "llamacpp":
        if launch.slots < 2:
            return None
        return replace(launch, slots=launch.slots // 2), f"slots {launch.slots} → {launch.slots // 2}"
    if reason is Reason.HOST_MEMORY and launch.on_gpu:
        return None  # its share of the GPU is not what the host lacks
    if launch.kv_space is not None:
        space = launch.kv_space * 0.8 if launch.on_gpu else floor(launch.kv_space * 0.75 / _GIB) * _GIB
        if space < _GIB:
            return None
        return replace(launch, kv_space=float(space)), f"kv_space {launch.kv_space / _GIB:.1f} → {space / _GIB:.1f} GiB"
    fraction = launch.fraction if launch.fraction is not None else default
    if fraction is None or (lower := round(fraction - _STEP[launch.kind], 3)) < _LEAST:
        return None
    return replace(launch, fraction=lower), f"mem_fraction {fraction:g} → {lower:g}"
