"""``draftmill plan``: what fits, what binds, how long it takes, and how to launch it, before anything is launched."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftmill.cli.options import Json, Only, Out, RecipePath, Samples, overrides, run_folder

if TYPE_CHECKING:
    from draftmill.plan.demand import Demand
    from draftmill.plan.facts import Facts
    from draftmill.plan.sheet import Sheet
    from draftmill.recipe import Plan, Recipe


def plan(
    recipe: RecipePath,
    out: Out = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", help="Lay values over the recipe's `plan`, e.g. gpu=h200,tp=8; repeatable."),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(help="Show other values beside the plan, e.g. mem_fraction=0.93,hicache=300,kv=fp8; repeatable."),
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Play the run on a simulated server and draw its timeline.")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="Where --simulate draws it; plan.svg in the run's folder.")] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the recipe's servers, where they run, and calibrate by what they hold.")
    ] = False,
    only: Only = None,
    samples: Samples = None,
    budget: Annotated[str | None, typer.Option(help="Token budget a dataset, e.g. 10M or 250k.")] = None,
    concurrency: Annotated[str | None, typer.Option(help="Requests at once, a lane: 64, or short=150,long=32.")] = None,
    max_new_tokens: Annotated[
        str | None, typer.Option(help="Token limit of an answer, a lane: 4096, or short=4k,long=16k.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Exit with 0 although something is refused.")] = False,
    json: Json = False,
) -> None:
    """Say what a server would hold, what binds it, how long the run takes, and the command that launches it.

    Lengths are those of the run's folder where it has prompts and answers,
    else of the recipe's `plan`, else assumed, and it is told which. What
    costs runs is refused, with exit status 1; --force exits with 0.

    Example: draftmill plan recipe.yaml --with gpu=h200,tp=8

    Example: draftmill plan recipe.yaml --what-if mem_fraction=0.93,hicache=300,kv=fp8
    """
    import msgspec

    from draftmill import recipe as recipes
    from draftmill.cli import plan_page, simulation
    from draftmill.cli.console import command, result
    from draftmill.plan.sheet import draw

    laid = overrides(only=only, samples=samples, budget=budget, concurrency=concurrency, max_new_tokens=max_new_tokens)
    folder = run_folder(recipe, out)
    loaded, facts, demands = planned(
        recipes.load(recipe, laid), recipe.parent, folder, with_ or [], only or (), ask=ask
    )
    settings = loaded.plan
    sheet = draw(settings, facts, demands)
    variants = {name: draw(other, facts, demands) for name, other in _variants(settings, what_if or []).items()}
    figures = {name: as_json(each) for name, each in {"plan": sheet, **variants}.items()}
    figures["plan"]["datasets"] = [demand_as_json(d) for d in demands]
    with result(json=json):
        plan_page.show(sheet, facts, demands)
        if variants:
            plan_page.side_by_side({"plan": sheet, **variants})
    if simulate:
        report = simulation.play(loaded, sheet, facts, demands)
        with result(json=json):
            simulation.show(report, sheet, facts, svg or folder / "plan.svg")
        figures["simulated"] = {"seconds": report.seconds, "rate": report.rate, "recomputed": report.recomputed}
    if json:
        typer.echo(msgspec.json.encode(figures).decode())
    laid_over = [word for text in with_ or [] for word in ("--with", text)]
    serve = command("draftmill", "serve", recipe, *(("--out", out) if out else ()), *laid_over)
    with result(json=json):
        plan_page.ending(sheet, facts, serve, force=force)
    raise typer.Exit(0 if force or not sheet.refusals else 1)


def planned(
    recipe: "Recipe", base: Path, folder: Path, with_: Sequence[str], only: Sequence[str] = (), *, ask: bool = False
) -> "tuple[Recipe, Facts, list[Demand]]":
    """The recipe with what the command line lays over its plan, and everything that the plan rests on."""
    if only:
        recipe = recipe.model_copy(update={"datasets": [d for d in recipe.datasets if d.name in only]})
    recipe = recipe.model_copy(update={"plan": _located(_settings(recipe, with_), base)})
    return recipe, *gather(recipe, base, folder, ask=ask)


def gather(recipe: "Recipe", base: Path, out: Path, *, ask: bool = False) -> "tuple[Facts, list[Demand]]":
    """Everything that a plan rests on: the machine, the model's files, the run's folder. Raises UsageFault."""
    from msgspec.structs import replace

    from draftmill.cli.console import label
    from draftmill.journal.folder import RunFolder
    from draftmill.machine import machine
    from draftmill.mill.target import resolve
    from draftmill.plan import history, live
    from draftmill.plan.demand import demands
    from draftmill.plan.facts import Facts, card_of
    from draftmill.plan.model import read_drafter, read_model

    plan, folder = recipe.plan, RunFolder(out)
    here = machine.probe()
    card = card_of(plan, here)
    elsewhere = (plan.gpu is not None or plan.gpu_free is not None) and not here.gpus
    host = plan.host_memory or (None if elsewhere else here.host)
    drafter = None
    if plan.drafter:
        place = base / Path(plan.drafter).expanduser()
        drafter = replace(read_drafter(str(place)), name=str(place))
    servers = history.identities(folder.engines)
    if ask:
        servers += live.identities(recipe.engines, lambda said: label("absent", said, style="yellow"))
    target = resolve(recipe, base)
    facts = Facts(
        machine=here,
        model=read_model(target.model),
        drafter=drafter,
        card=card,
        cap=_cap(recipe),
        kinds=tuple(engine.kind for engine in recipe.engines),
        loads=history.loads(folder.load),
        pace=history.pace(folder.load, [folder.dataset(d.name).journal for d in recipe.datasets]),
        host=host,
        disk=machine.disk_free(out),
        checkpoints=recipe.checkpoint_partials is not None,
        trusted=recipe.trust_remote_code,
    )
    seen = history.launched(folder.serve.starts, facts.engine(plan), facts.model.name, plan)
    facts = replace(
        facts,
        starts=[*history.starts(servers, plan), *history.as_starts(seen)],
        free=next((s.free for s in reversed(seen) if s.free), None),
        served=_served(recipe, base, facts.engine(plan)),
        ports=_ports(recipe),
    )
    return facts, demands(recipe, lambda dataset: history.seen(folder, dataset))


def _served(recipe: "Recipe", base: Path, kind: str) -> str | None:
    """The file that llama.cpp serves, where the recipe's model is a directory."""
    from draftmill.mill.target import engine_specs

    files = [spec.gguf for spec in engine_specs(recipe, base).engines if spec.gguf]
    return files[0] if kind == "llamacpp" and files else None


def _ports(recipe: "Recipe") -> tuple[int, ...]:
    """The ports of this machine at which the recipe's engines are, in their order."""
    from urllib.parse import urlsplit

    from draftmill.cli.launching import local
    from draftmill.recipe import server_of

    return tuple(port for spec in recipe.engines if local(spec) and (port := urlsplit(server_of(spec.url or "")).port))


def _cap(recipe: "Recipe") -> int | None:
    """Requests at once at one replica, where lanes or engines fix them; None where the governor finds out."""
    used = {dataset.lane for dataset in recipe.datasets}
    used |= {dataset.long_prompts.lane for dataset in recipe.datasets if dataset.long_prompts}
    caps = []
    for fixed in (
        [recipe.lanes[name].concurrency for name in sorted(used)],
        [engine.concurrency for engine in recipe.engines],
    ):
        numbers = [c for c in fixed if c != "auto"]
        if len(numbers) == len(fixed):
            caps.append(sum(numbers))
    return -(-min(caps) // recipe.plan.dp) if caps else None


def _settings(recipe: "Recipe", laid: Sequence[str]) -> "Plan":
    """The recipe's plan with the command line's values; an embedded engine's context, slots and KV type are in its own
    keys."""
    plan = recipe.plan
    embedded = next((engine for engine in recipe.engines if engine.kind == "embedded"), None)
    if embedded and plan.engine == "auto" and plan.context is None:
        own: dict[str, Any] = {"engine": "llamacpp", "context": embedded.context, "slots": embedded.slots}
        plan = plan.changed(own if embedded.kv == "f16" else own | {"kv": embedded.kv})
    for text in laid:
        plan = _changed(plan, _values(text, "--with"), "--with", text)
    return plan


def _located(plan: "Plan", base: Path) -> "Plan":
    """A command that lies in a folder is looked for beside the recipe, as all of its paths are."""
    if not plan.command or "/" not in plan.command[0]:
        return plan
    place = (base / Path(plan.command[0]).expanduser()).absolute()  # not resolved: an environment is found by its link
    return plan.changed({"command": [str(place), *plan.command[1:]]}) if place.exists() else plan


def _variants(plan: "Plan", texts: list[str]) -> "dict[str, Plan]":
    """Of each --what-if every value alone, and all of them together."""
    found: dict[str, Plan] = {}
    for text in texts:
        values = _values(text, "--what-if")
        for key, value in values.items():
            found[f"{key}={value}"] = _changed(plan, {key: value}, "--what-if", text)
        if len(values) > 1:
            found[" ".join(f"{key}={value}" for key, value in values.items())] = _changed(
                plan, values, "--what-if", text
            )
    return found


def _values(text: str, option: str) -> dict[str, Any]:
    import yaml

    from draftmill.errors import UsageFault

    values = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise UsageFault(f"{option} {text}: {part!r} is no KEY=VALUE", f"for example {option} mem_fraction=0.93")
        try:
            values[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            values[key.strip()] = value
    return values


def _changed(plan: "Plan", values: dict[str, Any], option: str, text: str) -> "Plan":
    from pydantic import ValidationError

    from draftmill.errors import RecipeError
    from draftmill.recipe import Plan, explained_values

    try:
        return plan.changed(values)
    except ValidationError as error:
        raise RecipeError(f"{option} {text}: does not fit a plan", explained_values(error, Plan)) from None


def as_json(sheet: "Sheet") -> dict[str, Any]:
    """A plan for a script; bytes, tokens, seconds."""
    import msgspec

    figures = {name: getattr(sheet, name) for name in sheet.__struct_fields__ if name != "settings"}
    built: dict[str, Any] = msgspec.to_builtins(figures)
    return {"settings": sheet.settings.model_dump(mode="json"), **built}


def demand_as_json(demand: "Demand") -> dict[str, Any]:
    """What a dataset asks for, without the lengths of its prompts."""
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(demand)
    return {name: value for name, value in built.items() if name != "prompts"} | {"tokens": demand.tokens}
