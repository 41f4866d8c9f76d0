"""A comparison as a page: the verdict in one sentence, and every effect with its interval."""

from collections.abc import Callable
from pathlib import Path

from draftmill.cli.console import advise, count, duration, label, many, say, table
from draftmill.compare.comparison import Comparison, Side
from draftmill.compare.hear import Plan
from draftmill.compare.verdict import Effect, Kind, Verdict

_COLOURS = {
    Verdict.NOISE: "green",
    Verdict.SHOWN: "",
    Verdict.TOLERATED: "green",
    Verdict.UNDECIDED: "yellow",
    Verdict.BEYOND: "red",
}
_TABLES = ((Kind.DISTANCE, "distance", "A to A", "A to B"), (Kind.SHIFT, "shift", "A", "B"))
_TOLD = 10.0  # seconds between two lines of progress


def begin(plan: Plan, too_long: int, samples: int) -> None:
    """What is about to be asked."""
    number = len(plan.questions)
    label("prompts", f"{many(number, 'prompt')}, answers of up to {count(plan.limit)} tokens")
    if too_long:
        label("left out", f"{many(too_long, 'prompt')} too long for the engines' context", style="yellow")
    if number < samples:
        label("few", f"{count(samples)} were asked for, there are {count(number)}", style="yellow")


def progress() -> Callable[[str, int, int], None]:
    """Tells of each phase when it ends, and of long ones now and then."""
    import time

    told = time.monotonic()

    def tell(phase: str, done: int, of: int) -> None:
        nonlocal told
        now = time.monotonic()
        if done == of or now - told > _TOLD:
            told = now
            label("asking", f"{phase}: {count(done)} of {count(of)}", style="dim")

    return tell


def show(done: Comparison, out: Path) -> None:
    """Print the page."""
    say()
    for name, side in (("A", done.a), ("B", done.b)):
        label(name, _side(side, done.prompts))
    label("scored", f"{many(done.scored, 'token')} of both, {done.top} likeliest ids each, in {duration(done.seconds)}")
    say()
    for kind, what, base, apart in _TABLES:
        headings = (base, apart, "excess" if kind is Kind.DISTANCE else "shift", "interval", "passes")
        columns = [(what, ""), ("unit", ""), *((heading, "right") for heading in headings), ("", "")]
        lines = [_line(effect) for effect in done.effects if effect.kind is kind]
        say(table(columns, lines, spare=("unit", "passes")))
        say()
    if done.partings:
        shares = ", ".join(f"{p.share:.0%} by id {p.ids}" for p in done.partings)
        last = done.partings[-1]
        label("greedy", f"answers have parted in {shares}; A from itself in {last.floor:.0%} by id {last.ids}")
    label("verdict", f"{done.verdict.value}: {done.says}", style=_COLOURS[done.verdict])
    advise(done.advice)
    advise(f"all figures: {out}")


def _side(side: Side, prompts: int) -> str:
    said = side.identity
    what = [said.kind, said.version or "", (said.model or "").rpartition("/")[2], said.weights or ""]
    what += [f"kv {said.kv_dtype}"] if said.kv_dtype else []
    answers = f"mean answer {side.tokens / prompts:,.0f} tokens, {side.truncated / prompts:.0%} cut"
    calls = "" if side.calls is None else f", {count(side.calls)} tool calls, {count(side.unusable or 0)} unusable"
    return f"{side.name}: {', '.join(w for w in what if w)}; {answers}{calls}"


def _line(effect: Effect) -> tuple[str, ...]:
    def figure(value: float | None) -> str:
        return "–" if value is None else _figure(value, effect.unit)

    excess = effect.excess
    return (
        effect.name,
        effect.unit,
        figure(effect.base),
        figure(effect.value),
        figure(excess.value),
        f"{figure(excess.low)} to {figure(excess.high)}",
        figure(effect.tolerance),
        effect.verdict.value,
    )


def _figure(value: float, unit: str) -> str:
    if unit in ("of tokens", "of answers"):
        return f"{value:.2%}"
    return f"{value:.1f}" if unit == "tokens" else f"{value:.4f}"
