"""Charts as numbers for the page's template: paths in a box of 1,000 units times ``height`` pixels, and labels in HTML.

The box is stretched to the page's width and its text is not part of it, so that a phone reads the same letters.
"""

from collections.abc import Callable, Sequence

import msgspec

from draftmill.watch.loads import Point
from draftmill.watch.report.axes import TimeAxis, short, ticks

WIDTH = 1000
_HEIGHT, _SMALL = 190, 96
_POINTS = 160  # of a line at most
_STEP = 15.0  # seconds of one of them at least: tokens come in bursts
_LABEL = 17  # pixels between two labels of lines
_TOGETHER = 0.08  # of the width: marks nearer than that share a number

Run = list[tuple[float, float]]  # of points that belong together: x from 0 to 1, and a value


class Line(msgspec.Struct, frozen=True):
    """One line. ``style`` is a class of the style sheet; ``fill`` also paints what is below."""

    name: str
    style: str
    runs: list[Run]
    fill: bool = False


class Drawn(msgspec.Struct, frozen=True):
    """A path of the box."""

    style: str
    d: str


class Label(msgspec.Struct, frozen=True):
    """A text at so many pixels from the top, or per cent from the left."""

    text: str
    at: float
    style: str = ""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """All that the template needs. ``told`` says in words what is drawn."""

    title: str
    unit: str
    told: str
    height: int
    paths: list[Drawn]
    y: list[Label]
    x: list[Label]
    ends: list[Label] = []
    marks: list[Label] = []
    small: bool = False
    note: str = ""


def binned(axis: TimeAxis, points: Sequence[Point], value: Callable[[Point], float | None]) -> list[Run]:
    """A value's means in steps of the axis; a line ends where nothing ran or nobody said it."""
    runs: list[Run] = []
    steps = axis.seconds / _step(axis)
    held: list[tuple[float, float]] = []
    place, open_run = (-1, -1), False

    def close() -> None:
        nonlocal held
        if held:
            runs[-1].append((sum(x for x, _ in held) / len(held), sum(y for _, y in held) / len(held)))
        held = []

    for point in points:
        said, x = value(point), axis.at(point.time)
        here = axis.span_of(point.time), int(x * steps)
        if here != place:
            close()
        if here[0] != place[0] or said is None:
            close()
            open_run = False
        place = here
        if said is not None:
            if not open_run:
                runs.append([])
                open_run = True
            held.append((x, said))
    close()
    return runs


def rates(axis: TimeAxis, points: Sequence[Point]) -> list[Run]:
    """Tokens a second that came, in such steps; none over a time in which nothing ran."""
    runs: list[Run] = []
    for number in range(len(axis.spans)):
        inside = [p for p in points if p.tokens and axis.span_of(p.time) == number]
        if len(inside) < 2:
            continue
        least = _step(axis)
        before, run = inside[0], []
        for point in inside[1:]:
            seconds = point.time - before.time
            if seconds >= least or (point is inside[-1] and seconds >= least / 2):
                rate = max(0, sum(point.tokens.values()) - sum(before.tokens.values())) / seconds
                run.append(((axis.at(before.time) + axis.at(point.time)) / 2, rate))
                before = point
        if run:
            runs.append(run)
    return runs


def _step(axis: TimeAxis) -> float:
    """Seconds that one point of a line stands for; a short run has a dozen points all the same."""
    return max(axis.seconds / _POINTS, min(_STEP, axis.seconds / 12), 1e-3)


def over_time(
    axis: TimeAxis,
    lines: Sequence[Line],
    *,
    title: str,
    unit: str,
    marks: Sequence[tuple[int, float]] = (),
    top: float | None = None,
    rules: Sequence[tuple[float, str]] = (),
    percent: bool = False,
    small: bool = False,
    note: str = "",
) -> Chart | None:
    """Lines over the time that a run ran; None where no line has a point.

    ``marks`` are numbered times between 0 and 1, ``rules`` values with a dashed line and a name.
    """
    values = [y for line in lines for run in line.runs for _, y in run]
    if not values:
        return None
    height = _SMALL if small else _HEIGHT
    wanted = max([*values, *(y for y, _ in rules)]) if top is None else top
    scale = ticks(wanted, 2 if small else 4)
    highest = scale[-1] if top is None else top

    def down(y: float) -> float:
        return round(height * (1 - min(1.0, y / highest)), 1)

    paths = [Drawn("break", _box(a * WIDTH, 0, (b - a) * WIDTH, height)) for a, b in axis.breaks]
    paths += [Drawn("grid", f"M0 {down(y)}H{WIDTH}") for y in scale if y <= highest]
    paths += [Drawn("mark", f"M{at * WIDTH:.1f} 0V{height}") for _, at in marks]
    paths += [Drawn("rule", f"M0 {down(y)}H{WIDTH}") for y, _ in rules]
    for line in lines:
        for run in line.runs:
            d = "M" + "L".join(f"{x * WIDTH:.1f} {down(y)}" for x, y in run)
            if len(run) == 1:
                d += "h2"
            if line.fill:
                area = f"{d}L{run[-1][0] * WIDTH:.1f} {height}L{run[0][0] * WIDTH:.1f} {height}Z"
                paths.append(Drawn(f"{line.style} area", area))
            paths.append(Drawn(f"{line.style} line", d))
    ends = [Label(line.name, down(line.runs[-1][-1][1]), line.style) for line in lines if line.runs and line.name]
    ends += [Label(name, down(y), "rule") for y, name in rules if name]
    peak = max(values)
    peak_text = f"{peak:.0%}" if percent else short(peak)
    return Chart(
        title=title,
        unit=unit,
        told=f"{title}: highest {peak_text} {'' if percent else unit}".strip(),
        height=height,
        paths=paths,
        y=[Label(f"{y:.0%}" if percent else short(y), down(y)) for y in scale if y <= highest],
        x=[Label(text, 100 * at) for at, text in axis.ticks(3 if small else 6)],
        ends=_apart(ends, height),
        marks=_shared(marks),
        small=small,
        note=note,
    )


def distribution(
    bins: Sequence[tuple[int, int, float]], *, title: str, unit: str, rules: Sequence[tuple[float, str]], note: str
) -> Chart | None:
    """How many of each length, as bars; ``rules`` are lengths with a name."""
    if not bins:
        return None
    end, most = bins[-1][1], max(n for _, _, n in bins)
    scale = ticks(most, 2)

    def down(y: float) -> float:
        return round(_SMALL * (1 - y / scale[-1]), 1)

    d = ""
    for start, below, n in bins:
        if n:
            height = max(_SMALL - down(n), 1.0)  # one answer is seen
            width = (below - start) / end * WIDTH
            d += _box(start / end * WIDTH + width * 0.05, _SMALL - height, width * 0.9, height)
    inside = [(at, name) for at, name in rules if 0 <= at <= end]
    paths = [Drawn("grid", f"M0 {down(y)}H{WIDTH}") for y in scale]
    paths += [Drawn("one bars", d)]
    paths += [Drawn("rule", f"M{at / end * WIDTH:.1f} 0V{_SMALL}") for at, _ in inside]
    return Chart(
        title=title,
        unit=unit,
        told=f"{title}: {note}",
        height=_SMALL,
        paths=paths,
        y=[Label(short(y), down(y)) for y in scale],
        x=[Label(short(t), 100 * t / end) for t in ticks(end, 3) if t <= end],
        marks=_named([(at / end, name) for at, name in inside]),
        small=True,
        note=note,
    )


def shares(parts: Sequence[tuple[float, str]]) -> list[Drawn]:
    """One bar of parts (share of the whole, style) behind each other, in a box 12 high."""
    paths, at = [], 0.0
    for share, style in parts:
        if share > 0:
            paths.append(Drawn(f"{style} bars", _box(at * WIDTH, 0, share * WIDTH, 12)))
        at += share
    return paths


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}Z"


def _apart(labels: list[Label], height: int) -> list[Label]:
    """Labels of lines so far from each other that they can be read, in their order from the top."""
    placed: list[Label] = []
    for label in sorted(labels, key=lambda each: each.at):
        at = max(label.at, placed[-1].at + _LABEL) if placed else label.at
        placed.append(msgspec.structs.replace(label, at=at))
    over = max(0.0, placed[-1].at - height) if placed else 0.0
    return [msgspec.structs.replace(label, at=label.at - over) for label in placed]


def _shared(marks: Sequence[tuple[int, float]]) -> list[Label]:
    """Numbers above the marks; those of marks that are near each other as ``3–5``."""
    groups: list[tuple[int, int, float]] = []
    for number, at in sorted(marks, key=lambda mark: (mark[1], mark[0])):
        if groups and at - groups[-1][2] < _TOGETHER:
            groups[-1] = (groups[-1][0], number, groups[-1][2])
        else:
            groups.append((number, number, at))
    return [Label(str(a) if a == b else f"{a}–{b}", 100 * at) for a, b, at in groups]


def _named(marks: Sequence[tuple[float, str]]) -> list[Label]:
    """Names above marks, those that would lie on another left out."""
    named: list[Label] = []
    for at, name in sorted(marks):
        if not named or 100 * at - named[-1].at > 25:
            named.append(Label(name, 100 * at))
    return named
