"""The text of a Textual screen, out of the SVG that Textual itself exports."""

import html
import re
from typing import Any

from textual.app import App

_TEXT = re.compile(r'<text [^>]*\bx="([\d.]+)"[^>]*clip-path="url\(#[^"]*-line-(\d+)\)"[^>]*>(.*?)</text>')
_CELL = 12.2  # width of a character in Rich's SVG


def text_of(app: App[Any]) -> str:
    """The screen as lines of text, without what stands to the right of the last character."""
    lines: dict[int, str] = {}
    for x, line, content in _TEXT.findall(app.export_screenshot()):
        column = round(float(x) / _CELL)
        before = lines.get(int(line), "")
        lines[int(line)] = before.ljust(column) + html.unescape(content).replace("\xa0", " ")
    last = max(lines, default=-1)
    return "\n".join(lines.get(n, "").rstrip() for n in range(last + 1)) + "\n"
