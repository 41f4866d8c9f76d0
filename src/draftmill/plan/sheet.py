"""One plan: what a server with these settings holds, how fast it is, how long the run takes, and what is refused."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import sqrt

import msgspec

from draftmill.capacity import decodes, disk, duration, headroom, host, pool, refusal
from draftmill.capacity.duration import Span, Work
from draftmill.capacity.kv import cell
from draftmill.capacity.launch import Launch, commands
from draftmill.capacity.pool import Memory
from draftmill.capacity.refusal import Refusal
from draftmill.capacity.speed import Speed
from draftmill.plan.demand import Demand
from draftmill.plan.facts import Facts
from draftmill.plan.pace import Pace
from draftmill.plan.pace import pace as pace_of
from draftmill.plan.verdict import binds, notes
from draftmill.recipe import Plan

VLLM_FRACTION = 0.92  # what --gpu-memory-utilization is where it is not given


class Share(msgspec.Struct, frozen=True):
    """One dataset in a plan: how many of its requests would run at once on one server, and how long it takes."""

    name: str
    at_once: float
    span: Span | None


class Sheet(msgspec.Struct, frozen=True):
    """A plan. Bytes are a GPU's; ``tokens`` and ``running`` those of one replica, ``rate`` is that of all.

    ``left`` and ``needed``: what a prefill finds and needs, where that is known. ``binds`` says in words what holds the
    rate down.
    """

    settings: Plan
    engine: str
    cell: float
    fraction: float | None
    memory: Memory | None
    memory_from: str
    pool: float
    tokens: int
    context: int
    held: float
    fits: int
    running: int
    speed: Speed | None
    speed_from: str
    rate: float | None
    left: float | None
    graphs: float | None
    needed: float | None
    hicache_tokens: int
    shares: list[Share]
    span: Span | None
    binds: str
    disk: dict[str, float]
    refusals: list[Refusal]
    notes: list[str]
    launch: list[str]


def draw(plan: Plan, facts: Facts, demands: Sequence[Demand]) -> Sheet:
    """Work out a plan. Raises UsageFault where a figure is missing that only a person can give."""
    shape, engine = facts.model.shape, facts.engine(plan)
    draft = facts.drafter.layers if facts.drafter else 0
    each = cell(shape, plan.kv, tp=plan.tp, pp=plan.pp, draft_layers=draft)
    context = plan.context or shape.context
    memory, memory_from = facts.memory(plan, engine, each)
    fraction = plan.mem_fraction or _default(plan, facts, engine)
    bytes, tokens, states = _tokens(plan, facts, engine, memory, fraction, each, context)
    work = [d for d in demands if d.needed]
    mix = work or [msgspec.structs.replace(d, needed=1) for d in demands]  # nobody says how many: one of each
    held = decodes.held([d.part for d in mix]) if mix else 0.0
    most = pool.max_running(tokens, context) if engine == "sglang" else facts.slots(plan, engine) or tokens
    if states is not None:
        most = min(most, states)

    def fitting(held: float) -> int:
        return max(0, min(decodes.fit(tokens, held) if held else 0, most, facts.cap or most))

    fits = decodes.fit(tokens, held) if held else 0
    running = fitting(held)
    seen = pace_of(plan, facts, held)
    pace = seen.speed
    shares, span = _spans(plan, work, seen, fitting)
    requests = facts.cap or max(running, 1)
    graphs, left, needed = _headroom(plan, facts, engine, memory, fraction, requests)
    rate = pace.rate(running) * plan.dp if pace and running else None
    sizes = _disk(facts, demands)
    refusals = _refusals(
        plan, facts, engine, demands, memory, fraction, bytes, tokens, context, graphs, needed, requests
    )
    return Sheet(
        settings=plan,
        engine=engine,
        cell=float(each),
        fraction=fraction,
        memory=memory,
        memory_from=memory_from,
        pool=bytes,
        tokens=tokens,
        context=context,
        held=held,
        fits=fits,
        running=running,
        speed=pace,
        speed_from=seen.source,
        rate=rate,
        left=left,
        graphs=graphs,
        needed=needed,
        hicache_tokens=host.distinct_tokens(plan.hicache, each) if plan.hicache else 0,
        shares=shares,
        span=span,
        binds=binds(running, fits, most, states, facts.cap, pace, facts, sizes),
        disk=sizes,
        refusals=refusals,
        notes=notes(demands, tokens, context, seen.source, sizes, facts),
        launch=commands(launch(plan, facts)),
    )


def _default(plan: Plan, facts: Facts, engine: str) -> float | None:
    if engine == "vllm":
        return VLLM_FRACTION if plan.kv_space is None else None
    if engine == "sglang" and facts.card:
        return headroom.default_fraction(facts.card.memory, tp=plan.tp, pp=plan.pp, mla=facts.model.shape.mla)
    return None


def _tokens(
    plan: Plan,
    facts: Facts,
    engine: str,
    memory: Memory | None,
    fraction: float | None,
    each: Fraction,
    context: int,
) -> tuple[float, int, int | None]:
    """(bytes of the pool, tokens in it, sequences whose linear layers' states fit or None)."""
    shape = facts.model.shape
    if engine == "llamacpp":
        tokens = pool.llamacpp_context(context, plan.slots)
        return tokens * float(each), tokens, None
    whole = plan.kv_space or (memory.pool(fraction) if memory and fraction else 0.0)
    whole, states = max(0.0, whole), None
    if shape.linear and engine == "sglang":
        whole, for_states = pool.shared_with_states(whole)
        states = int(for_states // (shape.state / plan.tp)) if shape.state else None
    if engine == "vllm":
        block = pool.VLLM_BLOCK if facts.on_gpu(plan) else pool.VLLM_CPU_BLOCK
        return (
            whole,
            pool.vllm_tokens(shape, plan.kv, whole, context=context, tp=plan.tp, pp=plan.pp, block=block),
            states,
        )
    return whole, Memory(whole, 0.0).tokens(1.0, each), states


def _spans(
    plan: Plan,
    work: Sequence[Demand],
    pace: Pace,
    fitting: Callable[[float], int],
) -> tuple[list[Share], Span | None]:
    shares = []
    for demand in work:
        at_once = fitting(demand.part.held)
        span = None
        if pace.speed and at_once:
            off = pace.error(at_once)
            prefilled = demand.left / demand.answers.mean * demand.prompt
            error = sqrt(off**2 + (2 * demand.answers.error) ** 2) if demand.answers.seen else sqrt(off**2 + 0.3**2)
            span = duration.of(Work(demand.left, prefilled, at_once), pace.speed, servers=plan.dp, error=error)
        shares.append(Share(demand.name, at_once, span))
    known = [s.span for s in shares if s.span]
    return shares, duration.together(known) if known and len(known) == len(shares) else None


def _headroom(
    plan: Plan, facts: Facts, engine: str, memory: Memory | None, fraction: float | None, requests: int
) -> tuple[float | None, float | None, float | None]:
    """(bytes that graphs take, what a prefill finds, what it needs), of SGLang: vLLM profiles a prefill by itself."""
    if engine != "sglang" or memory is None or fraction is None:
        return None, None, None
    total = facts.card.memory if facts.card else memory.free
    starts = plan.starts or facts.starts
    seen = [memory.free * (1 - s.mem_fraction) - s.left for s in starts if s.left is not None]
    reckoned = headroom.reckoned(total, tp=plan.tp, pp=plan.pp, mla=facts.model.shape.mla)
    graphs = max(seen) if seen else headroom.GRAPHS_SEEN * reckoned
    tokens = headroom.chunk(total)
    needed = headroom.peak(facts.model.shape, tokens=tokens, requests=requests, tp=plan.tp)
    return graphs, headroom.left(memory.free, fraction, graphs), needed


def _refusals(
    plan: Plan,
    facts: Facts,
    engine: str,
    demands: Sequence[Demand],
    memory: Memory | None,
    fraction: float | None,
    bytes: float,
    tokens: int,
    context: int,
    graphs: float | None,
    needed: float | None,
    requests: int,
) -> list[Refusal]:
    found: list[Refusal | None] = []
    if memory and fraction and engine != "llamacpp" and plan.kv_space is None:
        found.append(refusal.no_pool(memory, fraction, given=plan.mem_fraction is not None))
    if memory and fraction and graphs is not None and needed is not None:
        found.append(refusal.headroom(memory.free, fraction, graphs, needed, requests))
    if plan.hicache:
        found.append(refusal.hicache(plan.hicache, plan.tp * plan.pp * plan.dp, facts.host))
    loaded = facts.loaded(plan)
    if memory is None and loaded is not None:
        there = plan.gpu_free or (facts.card.free if facts.card else facts.host)
        found.append(refusal.room(loaded, bytes, there))
    found.append(refusal.quantised(plan.kv))
    holds, room = (context, context) if engine == "llamacpp" else (tokens, context)
    if holds:
        limits = {d.lane: d.limit for d in demands}
        found += [refusal.token_limit(lane, limit, holds, room) for lane, limit in limits.items()]
        longest = max(demands, key=lambda d: d.longest, default=None)
        if longest:
            found.append(refusal.prompt(longest.longest, longest.longest_where or longest.name, holds, room))
    if facts.drafter:
        found.append(refusal.drafter_flag(plan.algorithm, facts.drafter.eagle3))
    return [r for r in found if r]


def _disk(facts: Facts, demands: Sequence[Demand]) -> dict[str, float]:
    """Bytes by file, for all datasets; hidden states of the rows are none that a run writes."""
    shape, answers = facts.model.shape, sum(d.needed for d in demands)
    tokens = sum(d.tokens for d in demands)
    prompts = sum(d.needed * d.prompt for d in demands)
    available = sum(d.available or d.needed for d in demands)
    everything = sum((d.available or d.needed) * d.prompt for d in demands)
    return {
        "prompts": disk.prompts(available, everything, shape.vocab),
        "journal": disk.journal(answers, tokens, shape.vocab, checkpoints=facts.checkpoints),
        "rows": disk.rows(answers, tokens, prompts, shape.vocab),
        "hidden_states": disk.hidden_states(tokens + prompts, shape.hidden),
    }


def launch(plan: Plan, facts: Facts) -> Launch:
    """What is launched, as it is planned."""
    return Launch(
        kind=facts.engine(plan),
        model=facts.served or facts.model.name,
        tp=plan.tp,
        pp=plan.pp,
        dp=plan.dp,
        fraction=plan.mem_fraction,
        kv=plan.kv,
        kv_space=plan.kv_space,
        hicache=plan.hicache,
        context=plan.context or facts.model.shape.context,
        slots=plan.slots,
        drafter=plan.drafter,
        algorithm=plan.algorithm,
        trusted=facts.trusted,
        on_gpu=facts.on_gpu(plan),
        command=tuple(plan.command),
        options=tuple(plan.options),
        environment=plan.environment,
        devices=tuple(plan.devices),
        ports=facts.ports,
    )
