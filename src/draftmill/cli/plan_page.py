"""A plan as a page that a person can decide from."""

from collections.abc import Callable, Mapping, Sequence

from rich.text import Text

from draftmill.capacity.duration import Span
from draftmill.capacity.headroom import GIB, gib
from draftmill.capacity.host import GB, ONE_SENTENCE, in_all
from draftmill.capacity.kv import whole
from draftmill.cli.console import advise, count, duration, label, many, say, table
from draftmill.plan.demand import Demand
from draftmill.plan.facts import Facts
from draftmill.plan.sheet import Sheet

_NAMES = {"sglang": "SGLang", "vllm": "vLLM", "llamacpp": "llama.cpp"}


def show(sheet: Sheet, facts: Facts, demands: Sequence[Demand]) -> None:
    """Print the page, down to the notes."""
    server(sheet, facts)
    _datasets(sheet, demands)
    label("binds", sheet.binds)
    if demands and all(demand.settled for demand in demands):
        label("forecast", "nothing is owed any more: the run is over")
    elif sheet.span:
        label(
            "forecast", f"{_hours(sheet.span.seconds)}, between {_hours(sheet.span.low)} and {_hours(sheet.span.high)}"
        )
    else:
        label("forecast", "none: nothing says how fast this server is", style="yellow")
    label("disk", _disk(sheet, facts))
    for note in sheet.notes:
        label("note", note, style="yellow")


def ending(sheet: Sheet, facts: Facts, serve: str, *, force: bool) -> None:
    """What is refused, or the command, and that ``serve`` runs it."""
    refusals(sheet, force=force)
    if sheet.refusals and not force:
        advise("--force prints the command all the same")
        return
    if "embedded" in facts.kinds and sheet.engine == "llamacpp":
        advise("`draftmill run` starts this engine by itself")
        return
    say()
    for line in sheet.launch:
        say(Text(f"  {line}"))
    say()
    advise(f"`{serve}` starts that, says how far off this plan was, and keeps it alive")


def refusals(sheet: Sheet, *, force: bool) -> None:
    """What the plan refuses, and what to do instead."""
    for refused in sheet.refusals:
        label("forced" if force else "refused", refused.message, style="yellow" if force else "bold red")
        advise(refused.advice)


def side_by_side(sheets: Mapping[str, Sheet]) -> None:
    """Variants as columns."""
    names = list(sheets)
    rows = [(heading, *(figure(sheet) for sheet in sheets.values())) for heading, figure in _FIGURES]
    say()
    say(table([("", ""), *((name, "right") for name in names)], rows))
    say()
    for name, sheet in sheets.items():
        if name != "plan":
            for refused in sheet.refusals:
                label("refused", f"{name}: {refused.message}", style="yellow")
    if any(s.settings.hicache for s in sheets.values()) and not sheets["plan"].settings.hicache:
        label("host", ONE_SENTENCE)
    say()


def server(sheet: Sheet, facts: Facts) -> None:
    """What is served on what, and what fits."""
    plan, shape = sheet.settings, facts.model.shape
    weights = f"{gib(facts.model.bytes)} of weights ({facts.model.why})" if facts.model.bytes else "weights unknown"
    kinds = f"{shape.layers} layers{', MLA' if shape.mla else ''}" + (
        f", {shape.linear} of them linear" if shape.linear else ""
    )
    dtype = plan.kv if plan.kv in ("f32", "f16") else "bf16"
    label("model", f"{facts.model.name}: {kinds}, {whole(shape, dtype):,} bytes of KV a token in {dtype}; {weights}")
    label("machine", _machine(sheet, facts))
    fraction = "" if sheet.fraction is None else f", mem_fraction {sheet.fraction:g}"
    default = " (the server's default, about)" if fraction and plan.mem_fraction is None else ""
    sizes = "".join(f", {key} {getattr(plan, key)}" for key in ("tp", "pp", "dp") if getattr(plan, key) > 1)
    kv = "f16" if sheet.engine == "llamacpp" and plan.kv == "bf16" else plan.kv
    label("server", f"{_NAMES[sheet.engine]}{sizes}{fraction}{default}, kv {kv}, context {sheet.context:,}")
    each = " a replica" if plan.dp > 1 else ""
    place = " a GPU" if facts.on_gpu(plan) else ""
    label(
        "KV cache",
        f"{sheet.tokens:,} tokens{each}, {gib(sheet.pool)}{place} at {sheet.cell:,.0f} bytes a token "
        f"({sheet.memory_from})",
    )
    label("decodes", f"{sheet.fits} fit{each}, holding {count(sheet.held)} tokens each on average while they run")
    if sheet.left is not None and sheet.needed is not None:
        label(
            "headroom",
            f"{max(0.0, sheet.left) / GIB:.2f} GiB a GPU beside graphs, a prefill needs {sheet.needed / GIB:.2f}",
        )
    if plan.hicache:
        total = in_all(plan.hicache, plan.tp * plan.pp * plan.dp) / GB
        label(
            "host",
            f"hicache {plan.hicache:g} GB a rank is {total:,.0f} GB in all and holds "
            f"{sheet.hicache_tokens:,} distinct tokens{each}",
        )
        label("", ONE_SENTENCE)
    if sheet.rate and sheet.speed:
        base, each_more = sheet.speed.base * 1e3, sheet.speed.per_sequence * 1e3
        step = f"a step takes {base:.1f} + {each_more:.3f} · n ms: " if each_more else ""
        label("speed", f"{count(sheet.rate)} tok/s at {sheet.running} running{each} ({step}{sheet.speed_from})")
    else:
        label("speed", sheet.speed_from, style="yellow")


def _machine(sheet: Sheet, facts: Facts) -> str:
    plan = sheet.settings
    gpus = plan.tp * plan.pp * plan.dp
    words = []
    if facts.card:
        words.append(f"{gpus} × {facts.card.name} ({'named' if plan.gpu else 'found here'})")
    elif plan.gpu_free is None:
        words.append("no GPU")
    if plan.gpu_free is not None:
        words.append(f"{gib(plan.gpu_free)} free on each GPU (given)")
    if facts.card and not plan.gpu and len(facts.machine.gpus) < gpus:
        words.append(f"only {many(len(facts.machine.gpus), 'GPU')} here")
    if facts.host is None:
        words.append("host memory unknown")
    else:
        said = "given" if plan.host_memory else facts.machine.limit or "/proc/meminfo"
        words.append(f"host {facts.host / GB:,.0f} GB ({said})")
    return ", ".join(words)


def _datasets(sheet: Sheet, demands: Sequence[Demand]) -> None:
    shares = {share.name: share for share in sheet.shares}
    rows = []
    for d in demands:
        share = shares.get(d.name)
        rows.append(
            (
                d.name,
                "?" if d.available is None else count(d.available),
                "settled" if d.settled else count(d.needed),
                f"⌀ {count(d.prompt)} {d.prompt_from}",
                f"⌀ {count(d.answers.mean)} {d.answers_from}",
                count(d.tokens),
                str(round(share.at_once)) if share else "–",
                _time(share.span) if share and not d.settled else "–",
            )
        )
    headings = ("prompts", "needed", "prompt", "answer", "tokens", "at once", "time")
    total = (
        "all",
        "",
        count(sum(d.needed for d in demands if not d.settled)),
        "",
        "",
        count(sum(d.tokens for d in demands)),
        "",
        _time(sheet.span),
    )
    say()
    say(
        table(
            [("dataset", ""), *((h, "right") for h in headings)],
            rows,
            total=total if len(rows) > 1 else (),
            spare=("prompts", "at once", "prompt"),
        )
    )
    say()


def _disk(sheet: Sheet, facts: Facts) -> str:
    sizes = {name: f"{size / GB:,.1f} GB" for name, size in sheet.disk.items()}
    free = "" if facts.disk is None else f"; {facts.disk / GB:,.0f} GB are free"
    return (
        f"prompts {sizes['prompts']}, journal {sizes['journal']}, rows {sizes['rows']}; "
        f"hidden states of all rows would be {sizes['hidden_states']}{free}"
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 36_000 else duration(seconds)


def _time(span: Span | None) -> str:
    return _hours(span.seconds) if span else "–"


def _hicache(sheet: Sheet) -> str:
    plan = sheet.settings
    return f"{in_all(plan.hicache, plan.tp * plan.pp * plan.dp) / GB:,.0f} GB" if plan.hicache else "–"


_FIGURES: tuple[tuple[str, Callable[[Sheet], str]], ...] = (
    ("KV tokens", lambda s: count(s.tokens)),
    ("bytes a token", lambda s: f"{s.cell:,.0f}"),
    ("decodes that fit", lambda s: count(s.fits)),
    ("running", lambda s: count(s.running)),
    ("tok/s", lambda s: count(s.rate) if s.rate else "–"),
    ("time", lambda s: _time(s.span)),
    ("free for a prefill", lambda s: f"{max(0.0, s.left) / GIB:.2f} GiB" if s.left is not None else "–"),
    ("hicache in all", _hicache),
    ("distinct tokens there", lambda s: count(s.hicache_tokens) if s.hicache_tokens else "–"),
    ("refused", lambda s: ", ".join(r.rule for r in s.refusals) or "no"),
)
