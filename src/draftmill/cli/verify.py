"""``draftmill verify``: named checks of a run's rows, or of any file of rows."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftmill.cli.options import Json, Only
from draftmill.cli.replay import replaying, tokenizer_of
from draftmill.cli.replay import show as show_replay

if TYPE_CHECKING:
    from draftmill.verify.verification import Result, Verification

_FILE = "verification.json"
_COLOURS = {"error": "red", "warning": "yellow", "note": ""}


def verify(
    data: Annotated[Path, typer.Argument(help="A run's folder, or a file of rows: .jsonl, .jsonl.gz, .parquet.")],
    model: Annotated[
        str | None, typer.Option(help="Of a file: whose ids it holds, as in a recipe: a directory, hub id, .gguf file.")
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(help="How much of a fault passes, e.g. loop=0.05 (a share) or duplicate=3 (rows); repeatable."),
    ] = None,
    only: Only = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as there are cores unless given.")
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the Python code that the model's tokenizer brings along.")
    ] = False,
    replay: Annotated[
        str | None,
        typer.Option(metavar="ENGINE", help="Have some rows scored by a server's URL, `embedded`, or a .gguf file."),
    ] = None,
    replay_rows: Annotated[int | None, typer.Option(min=1, help="How many rows, 64 unless given.")] = None,
    replay_seed: Annotated[int | None, typer.Option(min=0, help="Which rows are drawn, 0 unless given.")] = None,
    sampling: Annotated[
        str | None, typer.Option(help="Of a file: how its rows were sampled, e.g. temperature=0.7,top_p=0.95.")
    ] = None,
    api_key_env: Annotated[str | None, typer.Option(help="The variable that holds the server's API key.")] = None,
    json: Json = False,
) -> None:
    """Check every row: ids, masks, ends, markers, loops, duplicates, and of a run its prompts, journal and cut.

    A run's rows are held against its prompts and its journal; what comes of
    it is kept in RUN/verification.json. A file of rows (input_ids and
    loss_mask, whoever wrote it) is held against itself and, with --model,
    against that tokenizer; what cannot be checked there is named.

    With --replay an engine scores some rows, and the verdict says whether
    they are its own: same model; same model, lower precision; or another
    model, template or sampler.

    Ends with 0 only if nothing is above its threshold. A recipe's verify part
    sets thresholds; docs/verify.md has every check.

    Example: draftmill verify runs/kimi

    Example: draftmill verify data/rows.jsonl --model models/my-model --threshold loop=0.05

    Example: draftmill verify runs/kimi --replay http://127.0.0.1:30000
    """
    import msgspec

    from draftmill.cli.console import label, result, say_error
    from draftmill.errors import StorageError
    from draftmill.verify import judge, verification

    thresholds = _thresholds(threshold or [])
    given = {"--replay-rows": replay_rows, "--replay-seed": replay_seed, "--sampling": sampling}
    if replay is None and (alone := [name for name, value in given.items() if value is not None]):
        raise typer.BadParameter("says something of --replay, which is not given", param_hint=alone[0])
    asking, not_kept = None, ""
    if replay is not None:
        asking = replaying(replay, replay_rows, replay_seed, sampling, api_key_env, data, model)
    if (data / "run.yaml").exists():
        if model is not None:
            raise typer.BadParameter("does not apply here: a run has its own", param_hint="--model")
        done = judge.verify_run(
            data,
            only=tuple(only or ()),
            thresholds=thresholds,
            workers=workers,
            replay=asking,
            tell=_progress(),
        )
        if not only:
            try:
                verification.write(done, data / _FILE)
            except StorageError as error:
                not_kept = error.message
    else:
        _refuse_no_rows(data, only)
        done = judge.verify_file(
            data,
            model=tokenizer_of(model),
            trust_remote_code=trust_remote_code,
            thresholds=thresholds,
            workers=workers,
            replay=asking,
            tell=_progress(),
        )
    if json:
        typer.echo(msgspec.json.encode(done).decode())
    with result(json=json):
        show(done)
        if not_kept:
            label("not kept", not_kept, style="yellow")
    if done.replay_fault:
        say_error(done.replay_fault.error())
    raise typer.Exit(0 if done.passed else 1)


def show(done: "Verification") -> None:
    """Print what was found, what it means, and what to do."""
    from draftmill.cli.console import advise, count, label, many, say, table

    found = [result for result in done.checks if result.count]
    above = [result for result in found if result.above]
    label(
        "rows", f"{many(sum(done.rows.values()), 'row')}, {count(done.tokens)} tokens, {count(done.supervised)} learnt"
    )
    for name, why in done.passed_over.items():
        label("not seen", f"{name}: {why}", style="yellow")
    label("checks", f"{len(done.checks)} made, {len(done.checks) - len(found)} found nothing")
    if found:
        columns = [
            ("check", ""),
            ("severity", ""),
            ("found", "right"),
            ("share", "right"),
            ("passes", "right"),
            ("", ""),
        ]
        columns += [("what it means", "")]
        lines = [
            (
                r.name,
                r.severity.value,
                count(r.count),
                f"{r.share:.2%}",
                "–" if r.severity == "note" else f"{r.threshold:.3g}" if r.threshold >= 1 else f"{r.threshold:.1%}",
                _above(r, len(done.rows)),
                r.message,
            )
            for r in sorted(found, key=lambda r: not r.above)
        ]
        say()
        say(table(columns, lines, spare=("passes", "severity")))
        say()
    for result in sorted(found, key=lambda r: not r.above):
        _show_examples(result)
    _show_coverage(done)
    for lane, (rows, cut) in done.lanes.items():
        label("lane", f"{lane}: {many(rows, 'row')}, {count(cut)} cut by the limit ({cut / max(rows, 1):.0%})")
    _show_not_made(done)
    if done.replay:
        show_replay(done.replay)
    if done.replay_fault:
        label("replay", f"failed: {done.replay_fault.message}", style="red")
    if above:
        names = ", ".join(result.name for result in above)
        label("fails", f"{len(above)} of {len(done.checks)} checks found too much: {names}", style="red")
        for result in above:
            advise(f"{result.name}: {result.advice}")
    elif done.replay_fault:
        label("fails", "nothing is above its threshold, but the replay was not made", style="red")
    else:
        label("passes", "nothing is above its threshold", style="green")


def _above(result: "Result", datasets: int) -> str:
    """Whether too much was found, and where that is only so in one dataset of several: which, and its share."""
    if not result.above or datasets == 1 or result.threshold >= 1 or result.share > result.threshold:
        return "above" if result.above else ""
    name, share = max(result.over.items(), key=lambda item: item[1])
    more = f" and {len(result.over) - 1} more" if len(result.over) > 1 else ""
    return f"above in {name}: {share:.2%}{more}"


def _show_examples(result: "Result") -> None:
    from draftmill.cli.console import count, label

    where = ""
    if len(result.datasets) > 1:
        where = " (" + ", ".join(f"{name} {count(number)}" for name, number in result.datasets.items()) + ")"
    label(result.severity.value, f"{result.name}{where}", style=_COLOURS[result.severity] if result.above else "")
    for example in result.examples:
        parts = [example.where, example.remark, repr(example.text) if example.text else ""]
        label("", "  " + ": ".join(part for part in parts if part), style="dim")


def _show_coverage(done: "Verification") -> None:
    from draftmill.cli.console import label, many, say, table

    if not done.supervised:
        return
    what = f"with the model's {many(done.markers, 'marker')} in it" if done.markers else "by frequency"
    label("vocabulary", f"share of learnt tokens that a draft vocabulary of this size holds, {what}")
    columns = [(f"{int(size) // 1000}k", "right") for size in done.coverage]
    say(table([("", ""), *columns], [("           ", *(f"{share:.2%}" for share in done.coverage.values()))]))


def _show_not_made(done: "Verification") -> None:
    from draftmill.cli.console import label

    reasons: dict[str, list[str]] = {}
    for name, reason in done.not_made.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        label("not made", f"{', '.join(names)}: {reason}", style="dim")


def _thresholds(given: list[str]) -> dict[str, float]:
    """``loop=0.05``, ``loop=5%`` or ``duplicate=3``."""
    from draftmill.recipe import check_thresholds

    found: dict[str, float] = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            number = float(value[:-1]) / 100 if value.endswith("%") else float(value)
        except ValueError:
            equals, number = "", 0.0
        if not equals:
            raise typer.BadParameter(f"{text!r} is not of the form check=share or check=rows", param_hint="--threshold")
        try:
            found |= check_thresholds({name: number})
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--threshold") from None
    return found


def _refuse_no_rows(data: Path, only: list[str] | None) -> None:
    from draftmill.errors import UsageFault

    if data.is_dir():
        raise UsageFault(f"{data}: holds no run (no run.yaml)", "give the folder that `draftmill run` made, or a file")
    if not data.exists():
        raise UsageFault(f"{data}: no such file or folder", "give a run's folder or a file of rows")
    if only:
        raise typer.BadParameter("does not apply here: it names a dataset of a run", param_hint="--only")


def _progress() -> Callable[[int, int], None]:
    """Tells of long work now and then."""
    import time

    from draftmill.cli.console import count, label, many

    began = told = time.monotonic()

    def tell(rows: int, tokens: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told > 10.0:
            told = now
            label("verifying", f"{many(rows, 'row')}, {count(tokens / (now - began))} tokens a second")

    return tell
