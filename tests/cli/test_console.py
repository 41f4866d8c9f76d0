import io

import pytest
from rich.console import Console

from draftmill.cli import console

COLUMNS = [("dataset", ""), ("prompts", "right"), ("mean", "right"), ("stopped", "right")]
ROW = ("a_long_dataset_name", "1,234,567", "3,793", "12,345")


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (80, ["dataset", "prompts", "mean", "stopped"]),
        (45, ["dataset", "prompts", "stopped"]),
        (33, ["dataset", "prompts"]),
    ],
)
def test_a_narrow_terminal_loses_columns_and_never_digits(
    width: int, headings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Console(file=io.StringIO(), width=width)
    monkeypatch.setattr(console, "err", screen)
    screen.print(console.table(COLUMNS, [ROW], total=ROW, spare=("mean", "stopped")))
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert shown.splitlines()[0].split() == headings
    assert "1,234,567" in shown and "…" not in shown


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999_999, "999,999"), (12_345_678, "12.35M"), (2.5e9, "2.50B"), (12.4, "12")]
)
def test_counts(number: float, text: str) -> None:
    assert console.count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (0.4, "0s"), (59.6, "1m00s"), (190, "3m10s"), (7500, "2h05m")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert console.duration(seconds) == text


def test_one_is_no_plural() -> None:
    assert (console.many(1, "prompt"), console.many(2000, "prompt")) == ("1 prompt", "2,000 prompts")
