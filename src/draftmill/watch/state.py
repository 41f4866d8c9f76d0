"""The state of a run, in words: whether it goes, how it ended and whether it is complete, and how to go on with it."""

from collections.abc import Iterator
from shlex import quote

from draftmill.ledger.told import SETTLED
from draftmill.watch.figures import DatasetFigures, Phase, RunFigures
from draftmill.watch.finding import Finding, Level, Verdict
from draftmill.watch.words import count, duration, gigabytes, many

_STARTS = ("run", "quickstart")  # verbs that generate
_SAYS = "it says what stops it"
_MENDED = "it goes on once that is mended"
_ANYTHING = "it generated anything"


def state(run: RunFigures) -> Iterator[Finding]:
    """Its phase, how it ended, and whether its control file is followed; nothing of a run that is on."""
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
        case Phase.ENDED if owed != 0 and run.died:
            message = "ended" + (f" ({run.ending})" if run.ending else "")
            message += (f": {many(owed, 'prompt')} still owed" if owed else "") + f"; {_early(run, _ANYTHING)}"
            yield Finding(Verdict.ENDED, Level.WARN, "run", message, _again(run, _MENDED))
        case Phase.ENDED if owed and run.ending == SETTLED:
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
            yield _not_begun(run)
        case Phase.FILES if _died(run) and not run.datasets:  # nothing was fixed yet that would have to be restored
            advice = f"run the same `draftmill run` command again: {_MENDED if run.died else _SAYS}"
            message = f"{Phase.NEW.value}: {_early(run, 'it had prepared anything')}"
            yield Finding(Verdict.STARTING, Level.WARN, "run", message, advice)
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


def _not_begun(run: RunFigures) -> Finding:
    """Of a run that generated nothing yet, whatever was adopted into it."""
    there = "nothing is generated yet"
    if run.total.answers:
        there = f"{many(run.total.answers, 'answer')} already there"
        there += f", {many(run.total.owed, 'prompt')} owed" if run.total.owed else ""
    if not _died(run):
        return Finding(Verdict.STARTING, Level.INFO, "run", f"{run.phase.value}: {there}")
    message = f"{Phase.NEW.value}: {_early(run, _ANYTHING)}" + (f"; {there}" if run.total.answers else "")
    advice = _again(run, _MENDED if run.died else _SAYS)
    return Finding(Verdict.STARTING, Level.WARN, "run", message, advice)


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
    if (share := d.error_share) > run.max_error_share:
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
    if run.died:
        return True
    over = run.phase in (Phase.NEW, Phase.FILES) and run.held is False and _verb(run) in _STARTS
    return over and not any(d.written for d in run.datasets)


def _early(run: RunFigures, what: str) -> str:
    """How the last start ended, before ``what``: a full disk shows, and keeps it from saying what ended it."""
    said = f"the last start ended before {what}" + (f": {run.died}" if run.died else "")
    if run.disk and run.disk.nearly_full:
        said += f"; only {gigabytes(run.disk.free)} of the disk are free"
    return said


def _part(run: RunFigures) -> str:
    """The options that kept the last start from answering everything."""
    given = [word.partition("=")[0] for word in run.command.split()] if _verb(run) in _STARTS else []
    return " and ".join(f"`{option}`" for option in ("--limit", "--only") if option in given)
