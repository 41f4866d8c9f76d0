"""What a run's figures mean, in one line each, and what to do next: pure rules, no clock, no files.

The most pressing finding comes first. What bounds the throughput is always among them while a run generates.
"""

from collections.abc import Callable, Iterator

from draftmill.watch.bottleneck import bottleneck
from draftmill.watch.figures import Phase, RunFigures
from draftmill.watch.finding import Finding, Level, Verdict
from draftmill.watch.words import count, duration, gigabytes, many

_FEW = 3  # of anything that says nothing yet
_STILL = 120.0  # seconds without one token
_LEAST_DISK = 1 << 30
_TRUNCATED = 0.2
_JUDGED = 20  # answers before their share that was cut means anything
_OVERSHOOT = 0.05
_BURST = 0.1  # of what ended in the last five minutes
_DOWN = ("lost", "paused", "absent", "refused")  # one that is doubted is probed just now, and soon open or lost

Rule = Callable[[RunFigures], Iterator[Finding]]


def diagnose(run: RunFigures) -> list[Finding]:
    """All findings, the most pressing first; never empty."""
    found = [finding for rule in _RULES for finding in rule(run)]
    if not found:
        found = [Finding(Verdict.STARTING, Level.INFO, "run", "nothing has been seen of its engines yet")]
    return sorted(found, key=lambda finding: list(Level).index(finding.level))


# the run


def _phase(run: RunFigures) -> Iterator[Finding]:
    again = "run the same `draftmill run` command again: it goes on where it stopped"
    owed = run.total.owed
    match run.phase:
        case Phase.PAUSED:
            flying = sum(e.in_flight or 0 for e in run.engines)
            message = f"paused: nothing new is sent, {many(flying, 'request')} in flight go on"
            yield Finding(Verdict.PAUSED, Level.WARN, "run", message, f"draftmill control {run.path} --resume")
        case Phase.GONE:
            silent = f"for {duration(run.time - run.seen)}" if run.seen else "any more"
            message = f"gone: it did not say that it ended, and gives no sign of life {silent}"
            yield Finding(Verdict.GONE, Level.BAD, "run", message, again)
        case Phase.ENDED if owed:
            message = f"ended ({run.ending}): {many(owed, 'prompt')} still owed"
            yield Finding(Verdict.ENDED, Level.WARN, "run", message, again)
        case Phase.ENDED:
            message = "ended: every prompt is settled" if owed == 0 else f"ended ({run.ending})"
            yield Finding(Verdict.ENDED, Level.GOOD, "run", message, f"draftmill export {run.path}")
        case Phase.NEW | Phase.PREPARING:
            yield Finding(Verdict.STARTING, Level.INFO, "run", f"{run.phase.value}: nothing is generated yet")
        case Phase.FILES:
            message = f"no run of this version: {many(run.total.answers, 'answer')} were found in its files"
            yield Finding(Verdict.ENDED, Level.INFO, "run", message)
        case _:
            pass
    if run.control_fault:
        message = f"the control file cannot be followed: {run.control_fault}"
        yield Finding(Verdict.PAUSED, Level.WARN, "run", message, f"mend {run.path}/control.yaml")


def _disk(run: RunFigures) -> Iterator[Finding]:
    if not _on(run) or run.disk is None:
        return
    free, needed = run.disk.free, run.disk.needed
    if free < _LEAST_DISK or (needed is not None and free < needed):
        rest = f", and the rest of the run needs about {gigabytes(needed)}" if needed else ""
        advice = (
            "free some space, or move other files away: a full disk stops the run (nothing that was synced is lost)"
        )
        message = f"short of disk: {gigabytes(free)} are free{rest}"
        yield Finding(Verdict.DISK, Level.BAD, "run", message, advice)


def _errors(run: RunFigures) -> Iterator[Finding]:
    for d in run.datasets:
        ended = d.recent_errors + d.recent_answers
        burst = d.recent_errors > _FEW and d.recent_errors / ended > _BURST
        settled = d.rows + d.errors
        many = d.errors > _FEW and d.errors / settled > run.max_error_share
        if not (burst or many) or not d.error_reasons:
            continue
        top = d.error_reasons[0]
        share = (
            f"{d.recent_errors} of the last {ended} prompts" if burst else f"{d.errors / settled:.0%} of its prompts"
        )
        advice = f"see {run.path}/{d.name}/errors.jsonl (first at {top.where}); mend it, then `--retry-errors`"
        message = f"error burst: {d.name}: {share} failed, most often: {top.sample}"
        yield Finding(Verdict.ERRORS, Level.BAD, d.name, message, advice)


def _budgets(run: RunFigures) -> Iterator[Finding]:
    for d in run.datasets:
        if not d.budget or d.budget_counts != "generated":
            continue
        expected = d.generated + d.growing
        if d.lengths and d.owed:
            expected = d.generated + max(d.growing, round(d.growing_answers * d.lengths.mean))
        over = expected / d.budget - 1
        if over <= _OVERSHOOT or not (_on(run) or run.phase is Phase.FILES):
            continue
        there = "has" if d.generated > d.budget * (1 + _OVERSHOOT) else "will have"
        surplus = f"{count(expected)} of {count(d.budget)} tokens ({over:+.0%})"
        advice = (
            "what lies behind the cut is kept as surplus and does not count; fewer at once in its lane "
            f"(draftmill control {run.path} --concurrency {d.lane or 'LANE'}=N) waste less at the end"
        )
        message = f"budget overshot: {d.name} {there} {surplus}, those in flight included"
        yield Finding(Verdict.OVERSHOOT, Level.WARN, d.name, message, advice)


def _truncated(run: RunFigures) -> Iterator[Finding]:
    for d in run.datasets:
        if d.truncated is None or d.truncated < _TRUNCATED or d.answers < _JUDGED:
            continue
        limit = f" of {count(d.limit)} tokens" if d.limit else ""
        lane = f" by the limit{limit} of lane {d.lane}" if d.lane else " by a limit"
        inside = ""
        if d.thinking and d.thinking.unclosed:
            inside = f"; {d.thinking.unclosed / d.thinking.answers:.0%} never leave their thinking"
        advice = (
            f"raise lanes.{d.lane or 'LANE'}.max_new_tokens for what is still owed if the context has room; "
            "cut answers are kept and labelled, `draftmill export --drop truncated` leaves them out"
        )
        message = f"answers truncated: {d.truncated:.0%} of {d.name}'s are cut{lane}{inside}"
        yield Finding(Verdict.TRUNCATED, Level.WARN, d.name, message, advice)


def _unread(run: RunFigures) -> Iterator[Finding]:
    for unread in run.unread:
        message = (
            f"{unread.file}: {many(unread.lines, 'line')} not understood, line {unread.first} first: {unread.reason}"
        )
        advice = "they are counted nowhere; look at that line, and tell us if a version of draftmill wrote it"
        yield Finding(Verdict.UNREAD, Level.WARN, "run", message, advice)


# its engines


def _down(run: RunFigures) -> Iterator[Finding]:
    if not _on(run):
        return
    for e in run.engines:
        if e.state not in _DOWN and (e.running is not None or e.source != "run"):
            continue
        if e.state == "open" and not e.why:
            yield Finding(Verdict.ENGINE_DOWN, Level.INFO, e.name, f"{e.name} does not say what it is doing")
            continue
        alone = all(other.state in _DOWN for other in run.engines)
        stalled = "no progress" in e.why
        verdict = Verdict.STALLED if stalled else Verdict.ENGINE_DOWN
        what = "stalled" if stalled else f"engine {e.state}"
        rest = "nothing is generated" if alone else "the others go on"
        advice = (
            "its setup refuses us: mend what it names (key, path, sampling value)"
            if e.state == "paused"
            else "restart the server: the run waits (`--patience`), and answers are continued, not drawn again"
        )
        message = f"{what}: {e.name}: {e.why or 'does not answer'}; {rest}"
        yield Finding(verdict, Level.BAD if alone or stalled else Level.WARN, e.name, message, advice)


def _still(run: RunFigures) -> Iterator[Finding]:
    """Requests are there, and no token has come for minutes."""
    if run.phase is not Phase.RUNNING or any(e.state in _DOWN for e in run.engines):
        return
    flying = sum(e.in_flight or e.running or 0 for e in run.engines)
    began = run.time if run.started is None else run.started
    told = run.server_rate is not None or run.total.growing_answers  # else tokens come with whole answers only
    if not flying or not told or run.time - began < _STILL or run.total.rates.last_5min != 0 or run.server_rate:
        return
    message = f"stalled: {many(flying, 'request')} in flight, and not one token in minutes"
    advice = "look at the server's log and GPUs; after `--stall` seconds its requests are taken away and sent again"
    yield Finding(Verdict.STALLED, Level.BAD, "run", message, advice)


def _bound(run: RunFigures) -> Iterator[Finding]:
    """What bounds each engine that works: exactly one verdict each."""
    if run.phase not in (Phase.RUNNING, Phase.FILES):
        return
    for e in run.engines:
        if e.state not in _DOWN and e.running is not None:
            yield bottleneck(run, e)


def _on(run: RunFigures) -> bool:
    return run.phase in (Phase.RUNNING, Phase.PAUSED)


_RULES: tuple[Rule, ...] = (_phase, _disk, _down, _still, _errors, _unread, _truncated, _budgets, _bound)
