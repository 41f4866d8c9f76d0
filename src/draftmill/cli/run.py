"""``draftmill run``: make or continue a run."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftmill.cli.options import Budget, Json, NativeTools, Only, Out, RecipePath, Samples, overrides, run_folder

if TYPE_CHECKING:
    from draftmill.mill.loop import Limits
    from draftmill.mill.result import Result
    from draftmill.recipe import Recipe
    from draftmill.serve.beside import Beside


def run(
    recipe: RecipePath,
    out: Out = None,
    only: Only = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="This engine instead of the recipe's: a URL or `embedded`; repeatable.")
    ] = None,
    budget: Budget = None,
    samples: Samples = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests at once, for every lane or by lane: 64, short=64,long=8.")
    ] = None,
    max_new_tokens: Annotated[
        str | None, typer.Option(help="Token limit of an answer, for every lane or by lane: 4k, short=10240.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first N prompts of each dataset, and show some decoded.")
    ] = None,
    max_errors: Annotated[int | None, typer.Option(min=1, help="Stop after so many error rows.")] = None,
    native_tools: NativeTools = False,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Try prompts that have an error row again.")
    ] = False,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for engines when none answers any more.")
    ] = 900.0,
    drain: Annotated[float, typer.Option(min=0, help="Seconds that Ctrl-C gives to what is in flight.")] = 60.0,
    stall: Annotated[
        float, typer.Option(min=1, help="Seconds without any progress until a server is taken for stuck.")
    ] = 300.0,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve Prometheus metrics on this port of 127.0.0.1.", show_default=False),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Start the servers that the recipe plans, and end them with the run.")
    ] = False,
    json: Json = False,
) -> None:
    """Generate what a recipe asks for; the same command again continues where it stopped.

    Example: draftmill run recipe.yaml --out runs/kimi --engine http://127.0.0.1:30000

    Example: draftmill run recipe.yaml --serve
    """
    from draftmill import recipe as recipes
    from draftmill.cli.console import command
    from draftmill.cli.launching import servers, with_servers
    from draftmill.mill.loop import Limits

    loaded = recipes.load(
        recipe,
        overrides(
            only=only,
            engine=engine,
            budget=budget,
            samples=samples,
            concurrency=concurrency,
            max_new_tokens=max_new_tokens,
            native_tools=native_tools,
        ),
    )
    folder = run_folder(recipe, out)
    limits = Limits(max_errors=max_errors, patience=patience, drain=drain, stall=stall)
    words = ("draftmill", "run", recipe, "--out", folder, "--native-tools" if native_tools else "")
    again = command(*words, "--serve" if serve else "")
    with _knowing_serve(loaded, command("draftmill", "serve", recipe), command(*words, "--serve")):
        result = mill(
            with_servers(loaded, recipe.parent, folder) if serve else loaded,
            recipe.parent,
            folder,
            limits,
            only=tuple(only or ()),
            first=limit,
            retry_errors=retry_errors,
            examples=1 if limit else 0,
            metrics_port=metrics_port,
            json=json,
            servers=(lambda: servers(loaded, recipe.parent, folder, tuple(only or ()))) if serve else None,
        )
    raise typer.Exit(finish(result, again, folder, limited=bool(limit), json=json))


@contextmanager
def _knowing_serve(recipe: "Recipe", serve: str, run: str) -> Iterator[None]:
    """Where no server is there, and it would be on this machine: that draftmill can start it."""
    from draftmill.cli.launching import local
    from draftmill.engines.faults import NotThere

    try:
        yield
    except NotThere as fault:
        if any(local(spec) for spec in recipe.engines):
            fault.advice = f"start it; or let draftmill start the planned one: {serve}, or {run}"
        raise


def mill(
    recipe: "Recipe",
    base: Path,
    folder: Path,
    limits: "Limits",
    *,
    only: tuple[str, ...] = (),
    first: int | None = None,
    retry_errors: bool = False,
    examples: int = 0,
    metrics_port: int | None = None,
    json: bool = False,
    servers: "Callable[[], AbstractContextManager[Beside]] | None" = None,
) -> "Result":
    """Prepare and generate, telling the story, and show what came of it, with the first rows of each dataset decoded.

    ``servers`` are started once it is known that anything is owed, and are there while it is generated.
    """
    from draftmill.cli import console
    from draftmill.cli.console import label
    from draftmill.cli.story import Story
    from draftmill.cli.summary import show, show_example
    from draftmill.mill.run import open_run

    label("run", str(folder))
    with interruptible(), open_run(recipe, base, folder, only=only, observer=Story()) as opened:
        opened.prepare()
        with metrics(folder, metrics_port):
            result = opened.mill(limits, first=first, retry_errors=retry_errors, servers=servers)
        with console.result(json=json):
            if examples and result.start.answers:
                for dataset in opened.datasets:
                    for prompt, answer in opened.decoded(dataset.name, examples):
                        show_example(prompt, answer)
            show(result)
    return result


def finish(result: "Result", again: str, folder: Path, *, limited: bool = False, json: bool = False) -> int:
    """Say how it ended and how to go on. Returns the exit status."""
    import msgspec

    from draftmill.cli import console
    from draftmill.cli.summary import as_json, exit_code, next_steps

    start = result.start
    if json:
        typer.echo(msgspec.json.encode(as_json(result)).decode())
    if start.error:
        console.say_error(start.error)
    with console.result(json=json):
        _say_ending(result, limited=limited)
        next_steps(result, again, str(folder))
    return exit_code(result, limited=limited)


def _say_ending(result: "Result", *, limited: bool) -> None:
    from draftmill.cli.console import label
    from draftmill.mill.loop import Ending

    start = result.start
    if start.error:
        label("stopped", start.ending.value, style="red")
    elif start.ending is not Ending.DONE:
        label("stopped", start.ending.value, style="yellow")
    elif result.complaints:
        label("incomplete", "it does not call itself complete, for what stands above as amiss", style="yellow")
    elif not any(d.rows for d in result.datasets) and not result.owed:
        label("done", "every prompt is settled, and not one of them has a row", style="yellow")
    elif limited and result.owed:
        label("done", "the first prompts of each dataset are settled", style="green")
    elif not result.owed:
        nothing = "" if start.answers or start.failed else "nothing to do: "
        label("done", f"{nothing}every prompt is settled and its row is written", style="green")


@contextmanager
def metrics(folder: Path, port: int | None) -> Iterator[None]:
    """Serve the run's metrics meanwhile, where that is asked for."""
    if port is None:
        yield
        return
    from draftmill.cli.console import label
    from draftmill.watch.metrics import serve
    from draftmill.watch.stats import RunWatch

    watch = RunWatch(folder)
    watch.refresh()  # now, since the first look at a large run takes seconds; later ones take none
    server = serve(watch, port)
    label("metrics", f"http://127.0.0.1:{server.port}/metrics")
    try:
        yield
    finally:
        server.close()


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C before or after the loop, which has its own way to stop: one line and status 130."""
    from draftmill.cli.console import label

    try:
        yield
    except KeyboardInterrupt:
        label("stopped", "interrupted; the same command goes on", style="yellow")
        raise typer.Exit(130) from None
