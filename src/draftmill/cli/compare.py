"""``draftmill compare``: whether two engine settings say the same, in numbers with intervals."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from draftmill.cli.options import Json, Only, variables
from draftmill.errors import UsageFault

if TYPE_CHECKING:
    from draftmill.cli.sides import Side
    from draftmill.compare.comparison import Comparison
    from draftmill.render.dialect import Dialect
    from draftmill.render.tokenizer import Tokenizer

_Setting = Annotated[
    str, typer.Argument(help="A URL, `embedded`, embedded:kv=q8_0, {url: …}, or recipe.yaml:kv=fp8 to launch its plan.")
]


def compare(
    a: _Setting,
    b: _Setting,
    prompts: Annotated[
        str | None, typer.Option(help="A run's folder, or a dataset in any format; example prompts unless given.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Whose tokenizer and chat template, as in a recipe; a run has its own.")
    ] = None,
    template: Annotated[
        list[str] | None, typer.Option(help="A variable of the chat template, e.g. enable_thinking=false; repeatable.")
    ] = None,
    samples: Annotated[int, typer.Option(min=2, help="How many prompts are compared.")] = 64,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Token limit of an answer.")] = 256,
    tolerance: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Share of tokens refused that passes; 0.02 unless given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Chooses the prompts, the samples and the bootstrap.")] = 0,
    only: Only = None,
    out: Annotated[Path, typer.Option(help="Where the figures are kept.")] = Path("compare.json"),
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the Python code that the model's tokenizer brings along.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare what two engine settings say, A being the one to be held to: another KV type, quantisation, version.

    Both answer the same prompts, and each scores its own and the other's
    answers. A is asked once more, in another order: what differs there is
    noise. The share of tokens that A would refuse of a perfect copy of B, less
    that noise, is held against the tolerance. docs/compare.md explains it.

    Ends with 0 where B passes, with 1 where it does not, or where too few
    prompts were compared to tell.

    Example: draftmill compare http://127.0.0.1:30000 http://127.0.0.1:30001 --prompts runs/kimi

    Example: draftmill compare embedded embedded:kv=q8_0 --model models/my-model.gguf --prompts data/chat.jsonl

    Example: draftmill compare recipe.yaml recipe.yaml:kv=fp8 --prompts runs/kimi
    """
    import msgspec

    from draftmill.cli import compare_page
    from draftmill.cli.console import result
    from draftmill.cli.sides import side
    from draftmill.compare import comparison

    one, other = side(a, "A"), side(b, "B")
    _refuse_place(out)
    if prompts and not prompts.startswith("hf:") and not any(map(prompts.count, "*?[")) and not Path(prompts).exists():
        raise UsageFault(f"--prompts {prompts}: no such file or folder")
    if prompts and (Path(prompts) / "run.yaml").exists():
        _refuse({"--model": model, "--template": template}, "a run has its own")
        target = _of_run(Path(prompts))
    elif prompts and Path(prompts).is_dir():
        advice = f"give the folder that `draftmill run` made, or files, for example {prompts.rstrip('/')}/*.jsonl"
        raise UsageFault(f"--prompts {prompts}: holds no run (no run.yaml)", advice)
    else:
        _refuse({"--only": only}, "it names a dataset of a run")
        target = target_of(model or _usual(one, other), template or [], trusted=trust_remote_code)
    asked = _Asked(prompts, tuple(only or ()), samples, max_new_tokens, seed)
    done = _compared(one, other, target, asked, tolerance, out.with_suffix(".servers"))
    comparison.write(done, out)
    if json:
        typer.echo(msgspec.json.encode(done).decode())
    with result(json=json):
        compare_page.show(done, out)
    raise typer.Exit(0 if done.passed else 1)


def _refuse_place(out: Path) -> None:
    """Hours of asking must not end at a file that cannot be written."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        writable = os.access(out if out.exists() else out.parent, os.W_OK)
    except OSError:
        writable = False
    if out.is_dir() or not writable:
        raise UsageFault(f"--out {out}: cannot be written", "name a file in a folder that can be")


class _Target(NamedTuple):
    """The model that both sides serve."""

    tokenizer: "Tokenizer"
    dialect: "Dialect"
    stop_ids: tuple[int, ...]
    gguf: Path | None


class _Asked(NamedTuple):
    """What is asked of both sides."""

    prompts: str | None
    only: tuple[str, ...]
    samples: int
    limit: int
    seed: int


def _compared(
    a: "Side", b: "Side", target: _Target, asked: _Asked, tolerance: float | None, logs: Path
) -> "Comparison":
    """Choose the prompts, hear both sides, and judge."""
    import asyncio
    import time

    from draftmill import examples
    from draftmill.cli import compare_page
    from draftmill.compare import comparison, questions
    from draftmill.compare.hear import Plan, hear
    from draftmill.compare.setting import refuse_other_vocabulary, room
    from draftmill.compare.verdict import TOLERANCE
    from draftmill.engines.protocol import Engine
    from draftmill.mill.preflight import PROBES, compare_tokenizer

    async def check(engine: Engine) -> None:
        await compare_tokenizer(engine, target.tokenizer, list(PROBES))

    began = time.monotonic()
    one, other = (each.setting(target.gguf, check, logs / name) for name, each in (("A", a), ("B", b)))

    async def introduce() -> None:
        await one.introduce()
        await other.introduce()

    asyncio.run(introduce())
    refuse_other_vocabulary(one, other)
    most = room(one, other, asked.limit)
    if asked.prompts and (Path(asked.prompts) / "run.yaml").exists():
        chosen = questions.of_run(Path(asked.prompts), asked.only, asked.samples, asked.seed, most)
    else:
        files = [asked.prompts] if asked.prompts else sorted(map(str, examples.QUICKSTART.glob("*.jsonl")))
        chosen = questions.of_files(files, target.tokenizer, target.dialect, asked.samples, asked.seed, most)
    plan = Plan(chosen.questions, asked.limit, target.stop_ids, target.tokenizer.size, seed=asked.seed)
    compare_page.begin(plan, chosen.too_long, asked.samples)
    heard = asyncio.run(hear(one.opened, other.opened, plan, compare_page.progress()))
    calls = [questions.calls(plan.questions, answers, target.dialect) for answers in (heard.a, heard.b)]
    return comparison.compare(
        plan,
        heard,
        ((one.name, one.identity), (other.name, other.identity)),
        tolerance=TOLERANCE if tolerance is None else tolerance,
        calls=(calls[0], calls[1]) if calls[0] and calls[1] else None,
        seconds=time.monotonic() - began,
    )


def _usual(a: "Side", b: "Side") -> str:
    """The model where none is named: the one that a side says that it serves."""
    if model := a.model or b.model:
        return model
    raise typer.BadParameter("is needed: whose tokenizer and chat template the prompts get", param_hint="--model")


def target_of(model: str, template: list[str], *, trusted: bool) -> _Target:
    from datetime import date

    from draftmill.mill.judged import recipe
    from draftmill.mill.target import resolve
    from draftmill.render import tokenizer as tokenizers
    from draftmill.render.dialect import Dialect
    from draftmill.render.template import ChatTemplate

    arguments = variables(template)
    found = resolve(recipe("prompts", model, arguments, trusted=trusted), Path())
    loaded = tokenizers.load(found.tokenizer, trust_remote_code=trusted)
    rendering = ChatTemplate(loaded, date.today().isoformat())
    rendering.refuse_unknown(arguments)
    dialect = Dialect(loaded, rendering, arguments)
    return _Target(loaded, dialect, dialect.markers.stop_ids, found.gguf)


def _of_run(path: Path) -> _Target:
    from draftmill.errors import UsageFault
    from draftmill.journal.folder import RunFolder
    from draftmill.ledger.settings import read_settings
    from draftmill.mill.target import own_tokenizer, resolve
    from draftmill.recipe import SMALL_MODEL, Recipe
    from draftmill.render.dialect import Dialect
    from draftmill.render.markers import custom

    folder = RunFolder(path)
    settings = read_settings(folder)
    if settings is None:
        raise UsageFault(f"{path}: holds no run", "give the folder that `draftmill run` made")
    recipe = Recipe.model_validate(settings.recipe)
    tokenizer, template = own_tokenizer(folder, settings)
    gguf = resolve(recipe, Path()).gguf if recipe.model == SMALL_MODEL or recipe.model.endswith(".gguf") else None
    dialect = Dialect(tokenizer, template, recipe.template, custom(recipe.markers))
    return _Target(tokenizer, dialect, tuple(settings.stop_ids), gguf)


def _refuse(given: dict[str, Any], why: str) -> None:
    for option, value in given.items():
        if value:
            raise typer.BadParameter(f"does not apply here: {why}", param_hint=option)
