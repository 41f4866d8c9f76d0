"""Every text of the page can be read in both themes: WCAG AA, worked out of the style sheet's own tokens."""

import re
from importlib import resources

import pytest

STYLE = re.sub(r"/\*.*?\*/", "", (resources.files("draftmill.watch.report") / "style.css").read_text(), flags=re.DOTALL)
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
)
THEMES = {"light": LIGHT, "dark": DARK}
RULES = re.findall(r"([^{};]+)\{([^{}]*)\}", re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL))
DECORATION = {"path.grid", "path.break", "path.track.bars", "path.area"}  # what they say stands in text as well


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def token(name: str, body: str) -> str | None:
    found = re.search(rf"(?:^|[; ]){name}: var\(--([\w-]+)\)", body)
    return found and found[1]


def pairs() -> list[tuple[str, str, str, float]]:
    """(selector, colour, what it stands on, the least contrast): text 4.5, lines and bars 3."""
    found = []
    for selector, body in RULES:
        own = token("background", body)
        for part in selector.split(","):
            name = part.strip()
            if (colour := token("color", body)) is not None:
                found += [(name, colour, back, 4.5) for back in ([own] if own else ["page", "card"])]
            for kind in ("stroke", "fill"):
                if name not in DECORATION and (colour := token(kind, body)) is not None:
                    found.append((name, colour, "card", 3.0))
    return found


def test_the_ratio() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_sheet_was_read() -> None:
    colours = {colour for _, colour, _, _ in pairs()}
    assert {"ink", "muted", "one", "two", "good", "warn", "bad", "thinking", "call", "frame"} <= colours
    assert len(pairs()) > 40


@pytest.mark.parametrize("theme", THEMES)
def test_contrast(theme: str) -> None:
    tokens = THEMES[theme]
    short = [(*pair, round(contrast(tokens[pair[1]], tokens[pair[2]]), 2)) for pair in pairs()]
    assert [pair for pair in short if pair[-1] < pair[-2]] == []


def test_both_themes_have_every_token_and_no_colour_stands_elsewhere() -> None:
    assert LIGHT.keys() == DARK.keys()
    used = set(re.findall(r"var\(--([\w-]+)\)", STYLE))
    assert used == set(LIGHT)
    assert [body for _, body in RULES if re.search(r"#[0-9a-f]{3}|rgb|hsl|\bwhite\b(?!-)|\bblack\b", body)] == []


def test_paper_is_light_and_nothing_is_fetched() -> None:
    assert "@media screen and (prefers-color-scheme: dark)" in STYLE
    assert "url(" not in STYLE and "@import" not in STYLE
