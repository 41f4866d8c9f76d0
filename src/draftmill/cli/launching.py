"""From a plan to servers: what ``serve`` and ``run --serve`` share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from draftmill.cli.console import label, say

if TYPE_CHECKING:
    from draftmill.capacity.launch import Launch
    from draftmill.plan.facts import Facts
    from draftmill.plan.sheet import Sheet
    from draftmill.recipe import EngineSpec, Recipe
    from draftmill.serve.beside import Beside
    from draftmill.serve.fleet import Fleet

_KEYS = {"vllm": "VLLM_API_KEY", "llamacpp": "LLAMA_API_KEY"}
_STYLES = {"died": "red", "given up": "bold red", "left": "red", "held": "yellow", "again": "yellow", "ready": "green"}


def tell(kind: str, subject: str, message: str) -> None:
    """What happened to a server, as a line of the story."""
    label(kind, f"{subject}: {message}", style=_STYLES.get(kind, ""))


def fleet_of(recipe: "Recipe", sheet: "Sheet", facts: "Facts", out: Path, stall: float) -> "Fleet":
    """The planned servers, not yet started. Raises UsageFault where they cannot be launched as the recipe has it."""
    from draftmill.journal.folder import RunFolder
    from draftmill.plan.sheet import launch
    from draftmill.serve.fleet import Fleet

    specs = [spec for spec in recipe.engines if local(spec)]
    return Fleet(
        _with_key(launch(sheet.settings, facts), specs),
        RunFolder(out).serve,
        tell,
        specs=specs,
        predicted=sheet.tokens or None,
        default=sheet.fraction,
        stall=stall,
    )


def local(spec: "EngineSpec") -> bool:
    """Whether an engine of the recipe is at a port of this machine."""
    from urllib.parse import urlsplit

    from draftmill.capacity.launch import HERE
    from draftmill.recipe import server_of

    url = urlsplit(server_of(spec.url)) if spec.url else None
    return url is not None and url.hostname == HERE and bool(url.port)


def served(recipe: "Recipe", launch: "Launch") -> "Recipe":
    """The recipe with the launched servers in the place of those that it has at their ports, and of embedded ones."""
    from draftmill.recipe import EMBEDDED, EngineSpec

    here = [spec for spec in recipe.engines if local(spec)]
    ours = [
        here[i].model_copy(update={"url": url, "kind": launch.kind})
        if i < len(here)
        else EngineSpec.model_validate({"url": url, "kind": launch.kind})
        for i, url in enumerate(map(launch.url, range(launch.dp)))
    ]
    others = [spec for spec in recipe.engines if spec.kind != EMBEDDED and spec not in here[: len(ours)]]
    return recipe.model_copy(update={"engines": [*ours, *others]})


def with_servers(recipe: "Recipe", base: Path, folder: Path) -> "Recipe":
    """The recipe with the servers that will be launched as its engines."""
    from draftmill.cli.plan import planned
    from draftmill.plan.sheet import launch

    settled, facts, _ = planned(recipe, base, folder, ())
    return served(recipe, launch(settled.plan, facts))


@contextmanager
def servers(recipe: "Recipe", base: Path, folder: Path, only: tuple[str, ...]) -> "Iterator[Beside]":
    """The planned servers while the context is open. Raises UsageFault where the plan refuses them."""
    from draftmill.cli import plan_page
    from draftmill.cli.plan import planned
    from draftmill.errors import RunError
    from draftmill.plan.sheet import draw
    from draftmill.serve.beside import beside
    from draftmill.serve.fleet import STALL

    settled, facts, demands = planned(recipe, base, folder, (), only)
    sheet = draw(settled.plan, facts, demands)
    plan_page.server(sheet, facts)
    if refused(sheet, force=False):
        raise RunError(
            "the plan refuses this server, so nothing was started",
            "change the plan, or start it with `draftmill serve --force` and run without --serve",
        )
    with beside(lambda: fleet_of(settled, sheet, facts, folder, STALL)) as kept:
        yield kept


def refused(sheet: "Sheet", *, force: bool) -> bool:
    """Say what the plan refuses. Whether that holds."""
    from draftmill.cli import plan_page

    plan_page.refusals(sheet, force=force)
    say()
    return bool(sheet.refusals) and not force


def _with_key(launch: "Launch", specs: "list[EngineSpec]") -> "Launch":
    """The launch with the API key that the recipe's engines want, in the environment: nobody else can read it there."""
    from msgspec.structs import replace

    from draftmill.errors import UsageFault

    names = {spec.api_key_env for spec in specs[: launch.dp] if spec.api_key_env}
    if not names:
        return launch
    if launch.kind not in _KEYS:
        raise UsageFault(
            "SGLang takes an API key as an argument only, which every user of the machine can read",
            "leave api_key_env away: the server listens on this machine only",
        )
    if len(names) > 1:
        raise UsageFault("replicas of one launch share one API key", "name the same variable in their api_key_env")
    if not (key := os.environ.get(name := names.pop(), "").strip()):
        raise UsageFault(f"the variable {name} that api_key_env names is not set", f"export {name}=… first")
    return replace(launch, environment={**launch.environment, _KEYS[launch.kind]: key})
