"""What does not change from one variant of a plan to the next: machine, model, observations; and who says it."""

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction

import msgspec

from draftmill.capacity import headroom, pool
from draftmill.capacity.cards import CARDS, CONTEXT, Card, by_driver
from draftmill.capacity.kv import cell
from draftmill.capacity.pool import Memory
from draftmill.capacity.weights import per_gpu
from draftmill.errors import UsageFault
from draftmill.machine.machine import Machine
from draftmill.plan.model import Drafter, Model
from draftmill.recipe import Plan, Start

_BESIDE = 1.04  # of the weights divided evenly: replicas and what loading leaves. A guess: one start says it exactly


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """``cap`` is how many requests one replica gets at once, None where the governor finds out; ``kinds`` are those of
    the recipe's engines; ``loads``, ``starts`` and ``pace`` those observed by the run; ``host`` the bytes that the host
    has, ``disk`` those free in the run's folder, ``free`` those that a server of the run found on a GPU before it
    loaded; None where nobody knows. ``served`` is what is launched where that is not ``model`` (a GGUF file),
    ``ports`` are where the recipe's engines expect it."""

    machine: Machine
    model: Model
    drafter: Drafter | None = None
    card: Card | None = None
    cap: int | None = None
    kinds: tuple[str, ...] = ()
    loads: list[tuple[float, float]] = []
    starts: list[Start] = []
    pace: tuple[float, float] | None = None
    host: float | None = None
    disk: float | None = None
    free: float | None = None
    served: str | None = None
    ports: tuple[int, ...] = ()
    checkpoints: bool = True
    trusted: bool = False

    def engine(self, plan: Plan) -> str:
        """The kind of server that is planned."""
        if plan.engine != "auto":
            return plan.engine
        known = [kind for kind in self.kinds if kind not in ("auto", "embedded")]
        if known:
            return known[0]
        return "llamacpp" if "embedded" in self.kinds or self.model.name.endswith(".gguf") else "sglang"

    def on_gpu(self, plan: Plan) -> bool:
        """Whether there is a GPU to plan for."""
        return self.card is not None or plan.gpu_free is not None

    def slots(self, plan: Plan, engine: str) -> int | None:
        return plan.slots if engine == "llamacpp" else None

    def loaded(self, plan: Plan) -> float | None:
        """Bytes that weights take of each GPU, as far as they are known without a start."""
        if plan.loaded is not None:
            return plan.loaded
        if self.model.bytes is None:
            return None
        drafter = self.drafter.bytes if self.drafter else 0
        return per_gpu(self.model.bytes, tp=plan.tp, pp=plan.pp) * _BESIDE + drafter

    def memory(self, plan: Plan, engine: str, each: Fraction) -> tuple[Memory | None, str]:
        """A GPU's memory as the pool's formula wants it, and where it comes from. Raises UsageFault where it cannot be
        known."""
        if engine == "llamacpp" or plan.kv_space is not None:
            return None, "given outright"
        free = self._free(plan, engine)
        try:
            if calibrated := self._calibrated(plan, plan.starts, each, free, ""):
                return calibrated
        except ValueError as error:
            raise UsageFault(f"plan: starts: {error}") from None
        for starts in (self.starts, self.starts[-1:]):  # nobody asked for these: what contradicts itself is left out
            with suppress(ValueError):
                if not plan.starts and (found := self._calibrated(plan, starts, each, free, " of the run's servers")):
                    return found
        loaded = self.loaded(plan)
        if free is None:
            known = ", ".join(CARDS)
            raise UsageFault(
                "no GPU is found here, and none is named",
                f"give the one it will run on, for example --with gpu=h200,tp=8 (known: {known}), or gpu_free=94GiB",
            )
        if loaded is None:
            raise UsageFault(
                f"{self.model.name}: nothing says how large its weights are", "give it a GPU: --with loaded=72.3GiB"
            )
        if engine == "vllm":  # its fraction covers the peak of a prefill as well
            peak = headroom.peak(self.model.shape, tokens=headroom.chunk(free), requests=256, tp=plan.tp)
            loaded += peak + CONTEXT
        return Memory(free, loaded), "reckoned, not calibrated"

    def _calibrated(
        self, plan: Plan, seen: Sequence[Start], each: Fraction, free: float | None, by: str
    ) -> tuple[Memory, str] | None:
        """Memory by observed starts, where they determine it. Raises ValueError where they contradict each other."""
        starts = [pool.Start(s.mem_fraction, s.tokens, float(self._cell(plan, s.kv, each))) for s in seen]
        if len({s.fraction for s in starts}) > 1:
            return pool.calibrate(starts), f"calibrated by {len(starts)} starts{by}"
        if starts and free is not None:
            return pool.calibrate(starts, free=free), f"calibrated by one start{by}"
        return None

    def _cell(self, plan: Plan, dtype: str, each: Fraction) -> Fraction:
        if dtype == plan.kv:
            return each
        draft = self.drafter.layers if self.drafter else 0
        return cell(self.model.shape, dtype, tp=plan.tp, pp=plan.pp, draft_layers=draft)

    def _free(self, plan: Plan, engine: str) -> float | None:
        if plan.gpu_free is not None:
            return plan.gpu_free
        if self.free is not None and engine == "sglang":
            return self.free
        if self.card is None:
            return None
        return self.card.memory if engine == "vllm" else self.card.free


def card_of(plan: Plan, machine: Machine) -> Card | None:
    """The accelerator: the one that is named, or the first of this machine. Raises UsageFault for an unknown name."""
    if plan.gpu is not None:
        if plan.gpu.lower() not in CARDS:
            raise UsageFault(f"no accelerator {plan.gpu!r} is known; there are {', '.join(CARDS)}", "or give gpu_free")
        return CARDS[plan.gpu.lower()]
    if not machine.gpus:
        return None
    first = machine.gpus[0]
    known = by_driver(first.name, first.memory)
    return Card(first.name, first.memory, known.bandwidth if known else 1e12)
