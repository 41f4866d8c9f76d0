"""``draftmill drift``: how many answers would come back as other ids, of a run or of any text dataset."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftmill.cli.options import Json, Only, variables

if TYPE_CHECKING:
    from draftmill.mill.drift import Example, Figure
    from draftmill.mill.judged import Judged


def drift(
    data: Annotated[str, typer.Argument(help="A run's folder, or a dataset: a file, a glob or hf:owner/name[:split].")],
    model: Annotated[
        str | None, typer.Option(help="Of a dataset: whose tokenizer and chat template; as in a recipe.")
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(help="Of a dataset: a variable of the chat template, e.g. enable_thinking=false; repeatable."),
    ] = None,
    format: Annotated[str, typer.Option(help="Of a dataset: its format, as in a recipe.")] = "auto",
    column: Annotated[str | None, typer.Option(help="Of a dataset: its column, as in a recipe.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the Python code that the model's tokenizer brings along.")
    ] = False,
    only: Only = None,
    sample: Annotated[
        str | None, typer.Option(help="Only so many answers of each dataset of a run, or so many rows of a file.")
    ] = None,
    json: Json = False,
) -> None:
    """Count the answers that are other token ids once they are text and rendered through the chat template again.

    Data that is kept as text and rendered for training has the ids of the
    rendering. Where these are not the ids that were generated, a drafter
    learns what its target did not say.

    Of a run both are known, and the figure is exact. Of a text dataset the
    generated ids are not known: its figure says what would come back if this
    model had written just these texts, as its tokenizer cuts text. Real
    answers also spell words in other pieces, and datasets lose white space,
    so the true share is higher as a rule. What cannot be judged, answers with
    tool calls above all, is counted apart and not in the share.

    Example: draftmill drift data/chat.jsonl --model models/my-model

    Example: draftmill drift runs/kimi --sample 1000
    """
    import msgspec

    from draftmill.cli.console import result
    from draftmill.mill import judged as judging

    progress, most = _progress(), _count(sample)
    if (Path(data) / "run.yaml").exists():
        foreign = {"--model": model, "--template": template, "--column": column, "--format": format != "auto"}
        _refuse([name for name, given in foreign.items() if given], "a run has its own")
        judged = judging.run(Path(data), only=tuple(only or ()), sample=most, tell=progress)
    else:
        _refuse(["--only"] if only else [], "it names a dataset of a run")
        _refuse_no_data(data)
        if model is None:
            raise typer.BadParameter("is needed for a dataset; only a run has its own", param_hint="--model")
        given = variables(template or [])
        recipe = judging.recipe(data, model, given, trusted=trust_remote_code, format=format, column=column)
        judged = judging.recordings(recipe, sample=most, tell=progress)
    if json:
        typer.echo(msgspec.json.encode({name: as_json(j) for name, j in judged.items()}).decode())
    with result(json=json):
        show(judged)
    raise typer.Exit(0 if any(j.figure.answers for j in judged.values()) else 1)


def as_json(judged: "Judged") -> dict[str, Any]:
    """The same figures for a script."""
    import msgspec

    return {"rows": judged.rows, **msgspec.to_builtins(judged.figure), "notes": judged.notes}


def show(judged: "dict[str, Judged]") -> None:
    """Print the table, the reasons, what could not be judged, and the first examples."""
    from draftmill.cli.console import advise, count, label, say, table

    columns = [("dataset", "")] + [(h, "right") for h in ("rows", "answers", "other ids", "share", "not judged")]
    rows = [
        (
            name,
            count(j.rows),
            count(j.figure.answers),
            count(j.figure.drifted),
            f"{j.figure.share:.1%}" if j.figure.answers else "–",
            count(sum(j.figure.unjudged.values())),
        )
        for name, j in judged.items()
    ]
    say()
    say(table(columns, rows, spare=("rows",)))
    say()
    for name, j in judged.items():
        for line in j.notes:
            label("note", f"{name}: {line}", style="yellow")
        if j.figure.unjudged:
            label("not judged", f"{name}: {_listed(j.figure.unjudged)}")
        if j.figure.drifted:
            label("drift", f"{name}: {sentence(j.figure)}")
            for example in j.figure.examples:
                _show_example(example)
    if not any(j.figure.answers for j in judged.values()):
        label("nothing", "there is no answer of which it could be said", style="yellow")
    elif any(j.figure.drifted for j in judged.values()):
        advise("rows of `draftmill run` hold the generated ids themselves; text that is rendered for training does not")


def sentence(figure: "Figure") -> str:
    """How many of the answers drift, why, and where they first differ."""
    from draftmill.cli.console import count, many

    share = f"{count(figure.drifted)} of {many(figure.answers, 'answer')} ({figure.share:.1%})"
    where = [f"{count(figure.before)} differ in the prompt already"] if figure.before else []
    where += [f"the median one from id {count(figure.median)} on"] if figure.median is not None else []
    return f"{share} would come back as other ids: {_listed(figure.reasons)}" + "".join(f"; {w}" for w in where)


def _listed(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items())


def _show_example(example: "Example") -> None:
    from draftmill.cli.console import label

    at = "" if example.at is None else f", from id {example.at}" if example.at >= 0 else ", in its prompt"
    label("", f"{example.where}{at}: {example.reason}", style="dim")
    if example.generated:
        label("", f"  generated  {example.generated!r}", style="dim")
    label("", f"  rendered   {example.rendered!r}", style="dim")


def _refuse_no_data(data: str) -> None:
    """What is neither a run nor a dataset, before anything else is asked for."""
    from draftmill.errors import UsageFault

    if data and Path(data).is_dir():
        advice = f"give the folder that `draftmill run` made, or files, for example {data.rstrip('/')}/*.jsonl"
        raise UsageFault(f"{data}: holds no run (no run.yaml)", advice)
    if not data or not (data.startswith("hf:") or Path(data).expanduser().exists() or set(data) & set("*?[")):
        raise UsageFault(f"{data or repr(data)}: no such file or folder", "give a run's folder or a dataset")


def _refuse(options: list[str], why: str) -> None:
    if options:
        raise typer.BadParameter(f"does not apply here: {why}", param_hint=options[0])


def _count(sample: str | None) -> int | None:
    from draftmill.recipe import parse_count

    try:
        return None if sample is None else parse_count(sample)
    except ValueError as error:
        raise typer.BadParameter(f"{sample!r} {error}", param_hint="--sample") from None


def _progress() -> Callable[[str, int], None]:
    """Tells of long work now and then."""
    import time

    from draftmill.cli.console import label, many

    told = time.monotonic()

    def tell(name: str, answers: int) -> None:
        nonlocal told
        if time.monotonic() - told > 10.0:
            told = time.monotonic()
            label("judging", f"{name}: {many(answers, 'answer')} so far")

    return tell
