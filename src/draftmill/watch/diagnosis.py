"""What a run's figures mean, in one line each, and what to do next: pure rules, no clock, no files.

The most pressing finding comes first. What bounds the throughput is always among them while a run generates.
"""

from collections.abc import Callable, Iterator
from shlex import quote

from draftmill.recipe import EMBEDDED, is_embedded
from draftmill.watch.bottleneck import bottleneck
from draftmill.watch.figures import DatasetFigures, Phase, RunFigures
from draftmill.watch.finding import Finding, Level, Verdict
from draftmill.watch.words import count, duration, gigabytes, many

_ALL = "every prompt that was asked for is settled"  # mill.loop.Ending.DONE
_STARTS = ("run", "quickstart")  # verbs that generate
_SAYS = "it says what stops it"
_FEW = 3  # of anything that says nothing yet
_HEARD = 5.0  # seconds since an engine's last figures that are worth telling
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
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[bool, int]:
    """By its level; lines that are settled come behind all else."""
    settled = finding.verdict is Verdict.UNREAD and finding.level is Level.INFO
    return settled, list(Level).index(finding.level)


# the run


def _again(run: RunFigures, does: str) -> str:
    """How to go on with it, and what that does; or what is to be put back first, since no start goes on without it."""
    if run.again is None:
        return f"restore {run.path}/run.yaml: it holds the settings of the answers, and no start goes on without it"
    if gone := [d.name for d in run.datasets if d.lost]:
        return f"restore {run.path}/{gone[0]}/raw_responses.jsonl: its answers are gone, and would be drawn anew"
    return f"run {run.again} again: {does}"


def _verb(run: RunFigures) -> str:
    """What the last start was: ``run`` of ``draftmill run r.yaml``."""
    return [*run.command.split(), "", ""][1]


def _died(run: RunFigures) -> bool:
    """Whether the last start ended before it generated anything. One that found nothing to do wrote its rows."""
    over = run.phase in (Phase.NEW, Phase.FILES) and run.held is False and _verb(run) in _STARTS
    return over and not any(d.written for d in run.datasets)


def _start_over(run: RunFigures, before: str, again: str) -> Finding:
    """Of a start that died; its own words are not in the folder, but a full disk shows."""
    message = f"{Phase.NEW.value}: the last start ended before {before}"
    if run.disk and run.disk.free < _LEAST_DISK:
        message += f"; only {gigabytes(run.disk.free)} of the disk are free"
    return Finding(Verdict.STARTING, Level.WARN, "run", message, again)


def _part(run: RunFigures) -> str:
    """The options that kept the last start from answering everything."""
    given = [word.partition("=")[0] for word in run.command.split()] if _verb(run) in _STARTS else []
    return " and ".join(f"`{option}`" for option in ("--limit", "--only") if option in given)


def _phase(run: RunFigures) -> Iterator[Finding]:
    again, owed = _again(run, "it goes on where it stopped"), run.total.owed
    match run.phase:
        case Phase.PAUSED:
            flying = sum(e.in_flight or 0 for e in run.engines)
            message = f"paused: nothing new is sent, {many(flying, 'request')} in flight go on"
            yield Finding(Verdict.PAUSED, Level.WARN, "run", message, f"draftmill control {quote(run.path)} --resume")
        case Phase.GONE:
            silent = f"for {duration(run.time - run.seen)}" if run.seen else "any more"
            message = f"gone: it did not say that it ended, and gives no sign of life {silent}"
            yield Finding(Verdict.GONE, Level.BAD, "run", message, again)
        case Phase.ENDED if owed and run.ending == _ALL:
            message = f"ended: every prompt that it was to answer is settled, {many(owed, 'prompt')} of all still owed"
            advice = _again(run, "they are answered then")
            if part := _part(run):
                advice = f"run it without {part}: it goes on where it stopped"
            yield Finding(Verdict.ENDED, Level.WARN, "run", message, advice)
        case Phase.ENDED if owed:
            message = f"ended ({run.ending}): {many(owed, 'prompt')} still owed"
            yield Finding(Verdict.ENDED, Level.WARN, "run", message, again)
        case Phase.ENDED:
            yield _ended(run)
        case Phase.NEW | Phase.PREPARING:
            there = "nothing is generated yet"
            if run.total.answers:
                there = f"{many(run.total.answers, 'answer')} already there"
                there += f", {many(owed, 'prompt')} owed" if owed else ""
            if _died(run):
                before = "it generated anything" + (f"; {there}" if run.total.answers else "")
                yield _start_over(run, before, again=_again(run, _SAYS))
            else:
                yield Finding(Verdict.STARTING, Level.INFO, "run", f"{run.phase.value}: {there}")
        case Phase.FILES if _died(run) and not run.datasets:  # nothing was fixed yet that would have to be restored
            yield _start_over(
                run, "it had prepared anything", again=f"run the same `draftmill run` command again: {_SAYS}"
            )
        case Phase.FILES:
            message = f"no run of this version: its files hold {many(run.total.answers, 'answer')}"
            if not run.datasets:
                message = (
                    "no run of this version, and no dataset: nothing here has prompts.jsonl or raw_responses.jsonl"
                )
            yield Finding(Verdict.ENDED, Level.INFO, "run", message)
        case _:
            pass
    if run.control_fault:
        message = f"the control file cannot be followed: {run.control_fault}"
        yield Finding(Verdict.PAUSED, Level.WARN, "run", message, f"mend {run.path}/control.yaml")


def _ended(run: RunFigures) -> Finding:
    """Of a run that owes nothing: whether it may call itself complete, by the rules that `draftmill run` has."""
    if run.total.owed is None:
        return Finding(Verdict.ENDED, Level.GOOD, "run", f"ended ({run.ending})", f"draftmill export {quote(run.path)}")
    amiss = [reason for d in run.datasets for reason in _amiss(run, d)]
    if amiss:
        more = f" (and {many(len(amiss) - 1, 'reason')} more)" if len(amiss) > 1 else ""
        message = f"ended, not complete: every prompt is settled, but {amiss[0][0]}{more}"
        return Finding(Verdict.ENDED, Level.WARN, "run", message, amiss[0][1])
    if run.held and any(d.written != d.rows for d in run.datasets):
        return Finding(Verdict.ENDED, Level.INFO, "run", "ended: every prompt is settled; its rows are being written")
    if not run.total.rows:
        what = "every prompt is settled, and not one of them has a row" if run.total.prompts else "it has no prompts"
        advice = f"see errors.jsonl and unread.jsonl of each dataset in {run.path}"
        return Finding(Verdict.ENDED, Level.WARN, "run", f"ended: {what}", advice)
    return Finding(
        Verdict.ENDED, Level.GOOD, "run", "ended: every prompt is settled", f"draftmill export {quote(run.path)}"
    )


def _amiss(run: RunFigures, d: DatasetFigures) -> Iterator[tuple[str, str]]:
    """Why a dataset that owes nothing is not complete, each with what to do."""
    if (share := _error_share(d)) > run.max_error_share:
        which = f"{share:.1%} of {d.name}'s prompts became errors ({count(d.errors)}), allowed are"
        advice = f"see {run.path}/{d.name}/errors.jsonl; mend it, then `--retry-errors` tries them again"
        yield f"{which} {run.max_error_share:.1%}", advice
    if d.altered:
        yield d.altered
    elif d.written != d.rows and not run.held:
        holds = "is not there as it was built" if d.written is None else f"has {count(d.written)}"
        advice = _again(run, "it writes them from the journal, if the disk has room for them")
        yield f"of {d.name}, {many(d.rows, 'row')} should be written, and tokenized_data.jsonl {holds}", advice
    # where positions are known, what a damaged line stood for is owed or was answered again
    unread = sum(u.lines for u in d.unread) + d.older_shape if d.counting is None else 0
    if unread or d.strays:
        what = [f"{many(unread, 'line')} of its files cannot be read"] if unread else []
        belong = "belongs" if d.strays == 1 else "belong"
        what += [f"{many(d.strays, 'line')} of its journal {belong} to no prompt that lacks one"] if d.strays else []
        advice = _again(run, "it names each file and line; mend them there")
        yield f"of {d.name}, {' and '.join(what)}", advice


def _error_share(d: DatasetFigures) -> float:
    """Of the prompts that were sent and ended, as `draftmill run` counts it."""
    settled = (d.rows if d.counting is None else d.counting) + d.errors
    return d.errors / settled if settled else 0.0


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
        many = d.errors > _FEW and _error_share(d) > run.max_error_share
        if not (burst or many) or not d.error_reasons:
            continue
        top = d.error_reasons[0]
        share = f"{d.recent_errors} of the last {ended} prompts" if burst else f"{_error_share(d):.0%} of its prompts"
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
        since = f", which is {count(d.limit or 0)} since" if raised else ""
        inside = ""
        if d.thinking and d.thinking.unclosed:
            inside = f"; {d.thinking.unclosed / d.thinking.answers:.0%} never leave their thinking"
        what = "for what is still owed" if d.owed else "in another run"
        which = f"lanes.{name}.max_new_tokens" if (name := _lane(run, d)) else "max_new_tokens of its lane"
        todo = f"raise {which} {what} if the context has room"
        advice = (
            f"{'what is still to come may be longer' if raised else todo}; "
            "cut answers are kept and labelled, `draftmill export --drop truncated` leaves them out"
        )
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
            advice = "its setup refuses us: mend what it names (key, path, sampling value)"
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


_RULES: tuple[Rule, ...] = (_phase, _disk, _down, _still, _errors, _unread, _truncated, _budgets, _out_of_reach, _bound)
