"""What bounds one engine, by its figures and the run's: exactly one verdict each."""

from shlex import quote

from draftmill.watch.figures import EngineFigures, Phase, RunFigures
from draftmill.watch.finding import Finding, Level, Verdict
from draftmill.watch.words import count, many

_FULL = 0.9  # of the KV cache in use: admission stops about there
_RESERVED = 0.7  # with a queue beside it: servers keep room for what runs to grow into
_IDLE_CACHE = 0.6  # below it there is room for more at once
_QUEUE = 0.1  # of the running requests: a shorter queue only keeps the server from running dry
_LONG_QUEUE = 0.25
_FLAT = 0.25  # where 1 % more requests bring less than 0.25 % more tokens a second
_MISSING = 0.25  # of our requests that the server does not know of: they are on the way, or wait for our own CPU
_ARRIVING = 10.0  # seconds of a start in which they may be
_THRASH = 0.1  # of the running requests thrown back in a minute
_FEW = 3  # of anything that says nothing yet


def bottleneck(run: RunFigures, e: EngineFigures) -> Finding:
    """What bounds one engine."""
    running, queued = e.running or 0, e.queued or 0
    facts = _facts(e)
    if e.retractions is not None and e.retractions > max(_FEW, _THRASH * running):
        message = f"retraction thrash: {e.retractions:.0f} requests thrown back in a minute; {facts}"
        advice = (
            f"what is thrown back is computed again: lower its cap to about {_fewer(running)}, or let `auto` find it"
        )
        return _of(Verdict.RETRACTIONS, Level.WARN, e, message, advice)
    if _draining(run):
        message = f"tail: nothing is left to be sent, {many(run.total.owed or 0, 'prompt')} in flight; {facts}"
        return _of(
            Verdict.TAIL, Level.INFO, e, message, "falling figures are as they should be: wait for the last ones"
        )
    full = e.kv_use is not None and e.kv_use >= _FULL
    reserved = e.kv_use is not None and e.kv_use >= _RESERVED and queued >= max(_FEW, _LONG_QUEUE * running)
    if queued and e.slots and running >= e.slots and not full:
        message = f"slot-bound: all {e.slots} slots run and {queued} wait; {facts}"
        advice = "more slots at the server would help (--max-running-requests, --max-num-seqs, -np)"
        return _of(Verdict.SLOT_BOUND, Level.WARN, e, message, advice)
    if queued > max(_FEW, _QUEUE * running) and (full or reserved):
        return _of(Verdict.KV_BOUND, Level.WARN, e, _kv_message(e, facts, full), _kv_advice(e))
    if full:
        message = f"KV-bound: the cache is full and next to nothing waits: as fast as its memory lets it; {facts}"
        return _of(Verdict.KV_BOUND, Level.GOOD, e, message, _kv_advice(e))
    return _with_room(run, e, facts)


def _with_room(run: RunFigures, e: EngineFigures, facts: str) -> Finding:
    """What bounds an engine whose cache has room."""
    running, queued = e.running or 0, e.queued or 0
    flying, cap = e.in_flight, e.cap
    young = run.phase is Phase.RUNNING and run.started is not None and run.time - run.started < _ARRIVING
    if young and flying and flying - running - queued > max(_FEW, _MISSING * flying):
        return _of(Verdict.STARTING, Level.INFO, e, f"starting: its first requests are under way; {facts}", "")
    if flying is not None and flying - running - queued > max(_FEW, _MISSING * flying):
        message = f"client-bound: of {flying} requests sent the server has only {running + queued}; {facts}"
        advice = "the rest waits for this process or the network: free a CPU core here, move nearer, or split the run"
        return _of(Verdict.CLIENT_BOUND, Level.WARN, e, message, advice)
    if flying is not None and running + queued - flying > max(_FEW, _MISSING * flying):
        message = f"shared: {running + queued - flying} requests at the server are not this run's; {facts}"
        advice = "another client uses it: both are slower, and its figures are not this run's alone"
        return _of(Verdict.SHARED, Level.WARN, e, message, advice)
    gain = e.gain()
    if gain is not None and gain < _FLAT:
        message = f"compute-bound: 10 % more at once would bring {10 * gain:.1f} % more tokens; {facts}"
        advice = "more at once only makes each answer slower; what would help: more or faster GPUs, another server"
        return _of(Verdict.COMPUTE_BOUND, Level.GOOD, e, message, advice)
    if queued > max(_FEW, _LONG_QUEUE * running):
        message = f"slot-bound: {queued} wait although the cache has room: it admits no faster; {facts}"
        advice = (
            "a limit of its own holds them back, or its prefill: see its --max-running-requests or --max-num-seqs, and "
            "its prefill chunk; requests that wait gain nothing"
        )
        return _of(Verdict.SLOT_BOUND, Level.WARN, e, message, advice)
    caps = [lane.concurrency for lane in run.lanes]
    lanes = sum(c for c in caps if c is not None) if caps and None not in caps else None
    everywhere = sum(other.in_flight or 0 for other in run.engines)
    room = (e.kv_use is None or e.kv_use < _IDLE_CACHE) and not (e.slots and running >= e.slots)
    binds = cap is not None and flying is not None and flying >= 0.9 * cap
    if room and lanes is not None and everywhere >= 0.9 * lanes and queued <= _FEW:
        message = f"starved: the lanes let only {lanes} requests out at once; {facts}"
        advice = f"raise the lanes' cap: {_control(run, f'--concurrency {2 * lanes}')}, or auto"
        return _of(Verdict.STARVED, Level.WARN, e, message, advice)
    if room and binds and queued <= _FEW:
        if e.auto:
            message = f"growing: the governor raises its cap step by step, {cap} at once now; {facts}"
            return _of(Verdict.GROWING, Level.INFO, e, message, "wait a few minutes: it stops where more is no faster")
        message = f"starved: nothing is queued and its cap is {cap} at once; {facts}"
        advice = f"raise the cap: {_control(run, f'--engine {quote(e.name)}={2 * (cap or 1)}')}, or =auto"
        return _of(Verdict.STARVED, Level.WARN, e, message, advice)
    if room and cap is not None and flying is not None and flying < 0.7 * cap and not young:
        message = f"client-bound: only {flying} of {cap} requests are out although prompts are owed; {facts}"
        advice = "this process does not send fast enough: free a CPU core here, or look whether a budget holds it back"
        return _of(Verdict.CLIENT_BOUND, Level.WARN, e, message, advice)
    return _of(Verdict.HEALTHY, Level.GOOD, e, f"healthy: {facts}", "")


def _control(run: RunFigures, option: str) -> str:
    """How to change a run; of one that is over, the next."""
    over = run.phase in (Phase.ENDED, Phase.GONE)
    return f"next time, with {option}" if over else f"draftmill control {quote(run.path)} {option}"


def _of(verdict: Verdict, level: Level, e: EngineFigures, message: str, advice: str) -> Finding:
    return Finding(verdict, level, e.name, message, advice)


def _kv_message(e: EngineFigures, facts: str, full: bool) -> str:
    if full:
        return f"KV-bound: {e.queued} wait because the KV cache is full; {facts}"
    kept = 1 - (e.kv_use or 0)
    why = f"the server keeps {kept:.0%} of its KV cache for what runs to grow into"
    return f"KV-bound: {e.queued} wait, since {why}; {facts}"


def _kv_advice(e: EngineFigures) -> str:
    running = e.running or 0
    lower = f"lower its cap to about {round(1.1 * running)} (or auto): those that wait gain nothing; "
    cap = lower if e.queued and not e.auto else ""
    twice = ""
    if e.base is not None and e.each is not None and running:
        rate = 2 * running / (e.base + 2 * running * e.each)
        twice = f" (twice of it: about {count(rate)} tok/s)"
    return (
        f"more concurrency will not help; {cap}more KV memory would{twice}: a higher memory fraction while some GB "
        "stay free, more GPUs, another server; or a lower token limit. A host-memory cache adds no decodes, an fp8 KV "
        "cache changes the data"
    )


def _facts(e: EngineFigures) -> str:
    """``34 running, 115 queued, KV 94 %, 606 tok/s (18 each)``."""
    rate = e.mean_rate if e.mean_rate is not None and e.source == "run" else e.rate
    parts = [f"{e.running} running", f"{e.queued} queued"]
    parts += [f"KV {e.kv_use:.0%}"] if e.kv_use is not None else []
    if rate:
        parts.append(f"{count(rate)} tok/s" + (f" ({rate / e.running:.1f} each)" if e.running else ""))
    elif e.running:
        parts.append("– tok/s" if e.rate is None else "0 tok/s")
    return ", ".join(parts)


def _draining(run: RunFigures) -> bool:
    """Whether all that is owed is in flight already."""
    flying = [e.in_flight for e in run.engines if e.in_flight is not None]
    return run.total.owed is not None and bool(flying) and 0 < run.total.owed <= sum(flying)


def _fewer(running: int) -> int:
    return max(1, round(0.85 * running))
