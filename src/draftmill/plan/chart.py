"""Time series as a chart: block characters for a terminal, SVG for a page."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise

import msgspec

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _PANEL, _GAP, _LEFT, _RIGHT, _TOP = 900, 110, 34, 80, 20, 40
_COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed")


class Series(msgspec.Struct, frozen=True):
    """One quantity over time: ``values`` at equal steps from 0 to the end, ``line`` what it is held against."""

    name: str
    unit: str
    values: list[float]
    line: float | None = None

    @property
    def top(self) -> float:
        return max(*self.values, self.line or 0.0, 1e-9)


def squeezed(values: Sequence[float], width: int) -> list[float]:
    """The same in ``width`` steps: means of what falls together."""
    if len(values) <= width:
        return list(values)
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def terminal(series: Series, *, width: int, height: int = 3) -> list[str]:
    """``height`` lines of block characters, the tallest first."""
    values, top = squeezed(series.values, width), series.top
    eighths = [round(max(0.0, v) / top * height * 8) for v in values]
    return [
        "".join(_BLOCKS[min(8, max(0, e - 8 * row))] for e in eighths).rstrip() for row in range(height - 1, -1, -1)
    ]


def svg(title: str, series: Sequence[Series], *, hours: float) -> str:
    """A panel for each series, one above the other, over the same hours."""
    height = _TOP + len(series) * (_PANEL + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    for number, each in enumerate(series):
        parts += _panel(each, _TOP + number * (_PANEL + _GAP), _COLOURS[number % len(_COLOURS)], hours)
    return "\n".join([*parts, "</svg>", ""])


def _panel(series: Series, y: int, colour: str, hours: float) -> list[str]:
    width, top = _WIDTH - _LEFT - _RIGHT, series.top
    values = squeezed(series.values, width)
    step = width / max(1, len(values) - 1)
    base = y + _PANEL
    points = [f"{_LEFT + i * step:.1f},{base - max(0.0, v) / top * (_PANEL - 16):.1f}" for i, v in enumerate(values)]
    area = f"{_LEFT},{base} {' '.join(points)} {_LEFT + (len(values) - 1) * step:.1f},{base}"
    parts = [
        f'<text x="{_LEFT}" y="{y + 8}" fill="{colour}">{escape(series.name)}</text>',
        f'<text x="{_LEFT - 6}" y="{y + 20}" text-anchor="end">{top:,.0f} {escape(series.unit)}</text>',
        f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>',
        f'<polygon points="{area}" fill="{colour}" fill-opacity="0.15"/>',
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}"/>',
        f'<line x1="{_LEFT}" y1="{base}" x2="{_LEFT + width}" y2="{base}" stroke="#999"/>',
    ]
    if series.line is not None:
        at = base - series.line / top * (_PANEL - 16)
        parts.append(
            f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_LEFT + width}" y2="{at:.1f}" stroke="#999" stroke-dasharray="4"/>'
        )
    for tick in range(5):
        x = _LEFT + width * tick / 4
        parts.append(f'<text x="{x:.1f}" y="{base + 14}" text-anchor="middle">{hours * tick / 4:.3g} h</text>')
    return parts
