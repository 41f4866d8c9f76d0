"""``draftmill control``: change a run while it is on, through the control file in its folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftmill.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from draftmill.recipe import Control, Wish

_FOLLOWS = {
    True: "is on and follows within a second or two",
    False: "is not on: this holds from its next start",
    None: "was begun on another machine: if it is on, it follows within a second or two",
}


def control(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    pause: Annotated[bool, typer.Option("--pause", help="Send nothing new; what is in flight goes on.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Send again, after a --pause.")] = False,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests at once, for every lane or by lane: 64, short=150,long=auto.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Token budget, for every dataset or by dataset: 12M, chat=12M,code=8M.")
    ] = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="Put this engine in: URL, or URL=N for its concurrency; repeatable.")
    ] = None,
    no_engine: Annotated[list[str] | None, typer.Option(help="Take this engine out: its URL; repeatable.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="First forget all that was changed before.")] = False,
    json: Json = False,
) -> None:
    """Pause, resume and re-tune a run, add engines to it or take them out; without options: show what holds.

    What is in flight at an engine that is taken out goes on at the others. The changes hold for later starts too, until
    they are changed again or cleared.

    Example: draftmill control runs/kimi --engine http://10.0.0.2:30000 --budget chat=12M
    """
    import msgspec

    from draftmill.cli.console import label, result
    from draftmill.journal.folder import RunFolder
    from draftmill.journal.lock import holder_lives
    from draftmill.ledger.control import steer
    from draftmill.recipe import Control

    folder = RunFolder(run)
    wanted: dict[str, Wish] = dict(map(_engine, engine or ()))
    unwanted: dict[str, Wish] = dict.fromkeys(no_engine or (), False)
    if pause and resume:
        raise typer.BadParameter("contradicts --pause", param_hint="--resume")
    if both := wanted.keys() & unwanted.keys():
        raise typer.BadParameter(f"contradicts --engine {min(both)}", param_hint="--no-engine")
    now, after = steer(
        folder,
        pause=pause if pause or resume else None,
        concurrency=concurrency,
        budget=budget,
        engines=unwanted | wanted,
        clear=clear,
    )
    held = holder_lives(folder.lock) if folder.lock.exists() else False
    if json:
        typer.echo(msgspec.json.encode({"run": str(run), "on": held, **now.model_dump(mode="json")}).decode())
    if not after.engines:
        label("control", "no engine is left: nothing is generated until one is put in", style="yellow")
    with result(json=json):
        for what, text in _words(now):
            label(what, text)
        if now == Control():
            label("control", "nothing but what the recipe says")
        label("state", "paused: nothing new is sent, until --resume" if now.pause else "not paused: prompts are sent")
        label("run", _FOLLOWS[held])


def _words(control: "Control") -> "Iterator[tuple[str, str]]":
    """What holds otherwise than the recipe says, each as what it is about and what holds."""
    from draftmill.cli.console import count

    for lane, number in control.concurrency.items():
        yield "lane", f"{lane}: {_at_once(number)}"
    for dataset, budget in control.budgets.items():
        yield "budget", f"{dataset}: {count(budget)} tokens"
    for url, wish in control.engines.items():
        match wish:
            case bool():
                yield "engine", f"{url}: {'put in' if wish else 'taken out'}"
            case dict():
                yield "engine", f"{url}: put in, {', '.join(f'{key}: {value}' for key, value in wish.items())}"
            case _:
                yield "engine", f"{url}: put in, {_at_once(wish)}"


def _at_once(number: int | str) -> str:
    return "auto: the governor finds its concurrency" if number == "auto" else f"{number} at once"


def _engine(text: str) -> "tuple[str, Wish]":
    from draftmill.ledger.control import as_number

    url, equals, value = text.partition("=")
    return (url, as_number(value)) if equals else (text, True)
