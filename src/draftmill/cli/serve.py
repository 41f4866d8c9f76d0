"""``draftmill serve``: start the planned server, read what it turned out to hold, and keep it alive."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftmill.cli.options import Budget, Only, Out, RecipePath, Samples, overrides, run_folder

if TYPE_CHECKING:
    from draftmill.serve.fleet import Fleet

Stall = Annotated[
    float,
    typer.Option(
        min=1, help="Seconds until a server is taken for stuck: silence in its log at its start, later no work."
    ),
]


def serve(
    recipe: RecipePath,
    out: Out = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", help="Lay values over the recipe's `plan`, e.g. mem_fraction=0.88; repeatable."),
    ] = None,
    only: Only = None,
    samples: Samples = None,
    budget: Budget = None,
    concurrency: Annotated[str | None, typer.Option(help="Requests at once, a lane: 64, or short=150,long=32.")] = None,
    max_new_tokens: Annotated[
        str | None, typer.Option(help="Token limit of an answer, a lane: 4096, or short=4k,long=16k.")
    ] = None,
    stall: Stall = 900.0,
    force: Annotated[bool, typer.Option("--force", help="Start it although the plan refuses something.")] = False,
) -> None:
    """Start the server that `draftmill plan` shows, and keep it alive until Ctrl-C.

    It is ready when it has generated a token. What its log says it holds is
    compared with the plan and kept for the next one. When it dies, the
    reason is told; it is started again, after a death of memory with less,
    or given up. Logs and events lie in serve/ of the run's folder.

    Example: draftmill serve recipe.yaml --with mem_fraction=0.88
    """
    import asyncio

    from draftmill import recipe as recipes
    from draftmill.cli import plan_page
    from draftmill.cli.console import advise, command, label
    from draftmill.cli.launching import fleet_of, refused
    from draftmill.cli.plan import planned
    from draftmill.plan.sheet import draw

    laid = overrides(only=only, samples=samples, budget=budget, concurrency=concurrency, max_new_tokens=max_new_tokens)
    folder = run_folder(recipe, out)
    loaded, facts, demands = planned(recipes.load(recipe, laid), recipe.parent, folder, with_ or [], only or ())
    sheet = draw(loaded.plan, facts, demands)
    plan_page.server(sheet, facts)
    if refused(sheet, force=force):
        advise("nothing was started; --force starts it all the same")
        raise typer.Exit(1)
    fleet = fleet_of(loaded, sheet, facts, folder, stall)

    def ready() -> None:
        label("serving", f"{', '.join(fleet.urls)}; Ctrl-C ends it", style="green")
        advise(f"generate with: {command('draftmill', 'run', recipe, *(('--out', out) if out else ()))}")

    if number := asyncio.run(_keep(fleet, ready)):
        raise typer.Exit(128 + number)


async def _keep(fleet: "Fleet", ready: "Callable[[], None]") -> int:
    """Serve until a signal comes, which is returned. Raises ServerError where no server is left."""
    import asyncio
    import signal

    came: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(number: int) -> None:
        if not came.done():
            came.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    work = asyncio.create_task(_serve(fleet, ready))
    waited: list[asyncio.Future[Any]] = [work, came]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    work.cancel()
    ends = await asyncio.gather(work, return_exceptions=True)
    await fleet.stop()
    if came.done():
        return came.result()
    if isinstance(ends[0], BaseException):
        raise ends[0]
    return 0


async def _serve(fleet: "Fleet", ready: "Callable[[], None]") -> None:
    await fleet.start()
    ready()
    await fleet.ended()
