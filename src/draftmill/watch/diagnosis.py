"""What a run's figures mean, in one line each, and what to do next: pure rules, no clock, no files.

The most pressing finding comes first. What bounds the throughput is always among them while a run generates.
"""

from collections.abc import Callable, Iterator
from shlex import quote

from draftmill.ledger.told import FAILING, OTHER
from draftmill.recipe import EMBEDDED, is_embedded
from draftmill.watch.bottleneck import bottleneck
from draftmill.watch.figures import DatasetFigures, Phase, RunFigures
from draftmill.watch.finding import Finding, Level, Verdict
from draftmill.watch.state import state
from draftmill.watch.words import count, duration, gigabytes, many

_FEW = 3  # of anything that says nothing yet
_HEARD = 5.0  # seconds since an engine's last figures that are worth telling
_STILL = 120.0  # seconds without one token
_TRUNCATED = 0.2
_JUDGED = 20  # answers before their share that was cut means anything
_OVERSHOOT = 0.05
_BURST = 0.1  # of what ended in the last five minutes
_DOWN = ("lost", "paused", "absent", "refused")  # one that is doubted is probed just now, and soon open or lost

_REFUSED = "its setup refuses us: mend what it names (key, path, sampling value)"
_PAUSED = {  # by what is told of an engine that is paused for another reason: what to do
    FAILING: "it answers and fails every call: see its log, restart it; it is tried again every half minute",
    OTHER: "serve there what the run was begun with: answers of two models are not mixed",
}

Rule = Callable[[RunFigures], Iterator[Finding]]


def diagnose(run: RunFigures) -> list[Finding]:
    """All findings, the most pressing first; never empty."""
    found = [finding for rule in _RULES for finding in rule(run)]
    if not found:
        found = [Finding(Verdict.STARTING, Level.INFO, "run", "nothing has been seen of its engines yet")]
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[bool, int]:
    """By its level; lines that are settled come behind all else."""
    settled = finding.verdict is Verdict.UNREAD and finding.level is Level.INFO
    return settled, list(Level).index(finding.level)


# the run


def _disk(run: RunFigures) -> Iterator[Finding]:
    if not _on(run) or run.disk is None:
        return
    free, needed = run.disk.free, run.disk.needed
    if run.disk.nearly_full or (needed is not None and free < needed):
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
        many = d.errors > _FEW and d.error_share > run.max_error_share
        if not (burst or many) or not d.error_reasons:
            continue
        top = d.error_reasons[0]
        share = f"{d.recent_errors} of the last {ended} prompts" if burst else f"{d.error_share:.0%} of its prompts"
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
        flying = d.growing_answers or any(e.in_flight for e in run.engines)
        if not flying and d.lengths and expected - d.budget < d.lengths.longest:
            continue  # a budget is reached by a whole answer
        if over <= _OVERSHOOT or not (_on(run) or run.phase is Phase.FILES):
            continue
        there = "has" if d.generated > d.budget * (1 + _OVERSHOOT) else "will have"
        lane = f"{name}=" if (name := _lane(run, d)) else ""
        surplus = f"{count(expected)} of {count(d.budget)} tokens ({over:+.0%})"
        advice = (
            "what lies behind the cut is kept as surplus and does not count; fewer at once in its lane "
            f"(draftmill control {quote(run.path)} --concurrency {lane}N) waste less at the end"
        )
        message = f"budget overshot: {d.name} {there} {surplus}, those in flight included"
        yield Finding(Verdict.OVERSHOOT, Level.WARN, d.name, message, advice)


def _out_of_reach(run: RunFigures) -> Iterator[Finding]:
    """A budget that all prompts together will not reach, even if each answer to come were a long one."""
    if not _on(run):
        return
    flying = sum(e.in_flight or 0 for e in run.engines)
    for d in run.datasets:
        if not (d.budget and d.owed and d.lengths and d.counting and d.answers >= max(_JUDGED, 2 * flying)):
            continue  # short answers end first: those of a start's beginning say nothing of the rest
        left = d.owed * d.counted / d.counting
        if d.counted + left * max(1.0, d.lengths.p90 / d.lengths.mean) >= d.budget:
            continue
        expected = f"about {count(d.counted + left)} of the {count(d.budget)} tokens"
        message = f"budget out of reach: all prompts of {d.name} together will give {expected}"
        advice = "give it more prompts (a longer source, or `samples`), or lower its budget; what it has is kept"
        yield Finding(Verdict.OUT_OF_REACH, Level.WARN, d.name, message, advice)


def _truncated(run: RunFigures) -> Iterator[Finding]:
    for d in run.datasets:
        judged = _FEW if run.phase is Phase.ENDED else _JUDGED  # what has ended will not change any more
        if d.truncated is None or d.truncated < _TRUNCATED or d.answers < judged:
            continue
        raised = bool(d.limit and d.cut_at and d.limit > d.cut_at[1])
        lane = f" by {_limit(d)} of lane {d.lane}" if d.lane else f" by {_limit(d)}"
        since = f"; {count(d.limit or 0)} are allowed now: it was raised, or the context was full" if raised else ""
        inside = ""
        if d.thinking and d.thinking.unclosed:
            inside = f"; {d.thinking.unclosed / d.thinking.answers:.0%} never leave their thinking"
        what = "for what is still owed" if d.owed else "in another run"
        which = f"lanes.{name}.max_new_tokens" if (name := _lane(run, d)) else "max_new_tokens of its lane"
        todo = f"raise {which} {what} if the context has room"
        if raised:
            todo = f"{'what is still to come' if d.owed else 'another run'} may have longer ones"
        advice = f"{todo}; cut answers are kept and labelled, `draftmill export --drop truncated` leaves them out"
        message = f"answers truncated: {d.truncated:.0%} of {d.name}'s are cut{lane}{since}{inside}"
        yield Finding(Verdict.TRUNCATED, Level.WARN, d.name, message, advice)


def _lane(run: RunFigures, d: DatasetFigures) -> str:
    """The name of a dataset's lane; "" where nobody knows it, in a folder without a recipe."""
    return d.lane or (run.lanes[0].name if len(run.lanes) == 1 else "")


def _limit(d: DatasetFigures) -> str:
    """That of the answers themselves: the recipe's may be another one by now."""
    if d.cut_at is None:
        return "a limit"
    least, most = d.cut_at
    if least < most:
        return f"limits of {count(least)} to {count(most)} tokens"
    return f"the limit of {count(most)} tokens"


def _unread(run: RunFigures) -> Iterator[Finding]:
    settled = [u for d in run.datasets if d.counting is not None and d.owed == 0 for u in d.unread]
    for unread in run.unread:
        message = (
            f"{unread.file}: {many(unread.lines, 'line')} not understood, line {unread.first} first: {unread.reason}"
        )
        advice = "they are counted nowhere; look at that line, and tell us if a version of draftmill wrote it"
        if unread in settled:
            advice = "nothing is to be done, but was the disk in order?"
            message += "; nothing is owed for it, since what it stood for was settled without it"
            yield Finding(Verdict.UNREAD, Level.INFO, "run", message, advice)
            continue
        yield Finding(Verdict.UNREAD, Level.WARN, "run", message, advice)


# its engines


def _down(run: RunFigures) -> Iterator[Finding]:
    if not _on(run):
        return
    for e in run.engines:
        if e.state not in _DOWN and (e.running is not None or e.source != "run"):
            continue
        if e.state == "open" and not e.why:
            ago = run.time - (e.time or run.time)
            silent = f"no figures for {duration(ago)}" if ago > _HEARD else "it does not say what it is doing"
            yield Finding(Verdict.ENGINE_DOWN, Level.INFO, e.name, f"{e.name}: {silent}")
            continue
        alone = all(other.state in _DOWN for other in run.engines)
        stalled = "no progress" in e.why
        verdict = Verdict.STALLED if stalled else Verdict.ENGINE_DOWN
        what = "stalled" if stalled else f"engine {e.state}"
        rest = "nothing is generated" if alone else "the others go on"
        advice = "restart the server: the run waits (`--patience`), and answers are continued, not drawn again"
        if e.state == "paused":
            advice = next((do for what, do in _PAUSED.items() if what in e.why), _REFUSED)
        elif e.state == "absent" and is_embedded(e.name):
            out = f"draftmill control {quote(run.path)} --no-engine {EMBEDDED}"
            advice = f"mend what it names: draftmill starts it then; or take all embedded ones out: {out}"
        elif e.state == "absent" and not e.kept:
            out = f"draftmill control {quote(run.path)} --no-engine {quote(e.name)}"
            advice = f"start it, and it is taken in as soon as it answers; or take it out: {out}"
        elif e.kept:
            advice = f"wait: draftmill starts it again, and answers are continued, not drawn again; see {e.kept}"
        message = f"{what}: {e.name}: {e.why or 'does not answer'}; {rest}"
        yield Finding(verdict, Level.BAD if alone or stalled else Level.WARN, e.name, message, advice)


def _still(run: RunFigures) -> Iterator[Finding]:
    """Requests are there, and no token has come for minutes."""
    if run.phase is not Phase.RUNNING or any(e.state in _DOWN for e in run.engines):
        return
    flying = sum(e.in_flight or e.running or 0 for e in run.engines)
    began = run.time if run.started is None else run.started
    told = run.server_rate is not None or run.total.growing_answers  # else tokens come with whole answers only
    if not flying or not told or run.time - began < _STILL or run.total.rates.last_5min or run.server_rate:
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


_RULES: tuple[Rule, ...] = (state, _disk, _down, _still, _errors, _unread, _truncated, _budgets, _out_of_reach, _bound)
