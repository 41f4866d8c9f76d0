"""How much of each fault `draftmill verify` lets pass: a share of what was looked at below 1, else a number."""

from typing import Annotated, Any

from pydantic import AfterValidator

from draftmill.recipe.fit import one_of

# the names of `verify.checks`, which stands above: a test holds both to each other
THRESHOLDS: dict[str, float] = {
    "unreadable": 0,
    "legacy-text": 0,
    "thinking-in-content": 0,
    "vocabulary": 0,
    "mask-shape": 0,
    "unsupervised": 0,
    "mask-early": 0,
    "mask-late": 0,
    "mask-gap": 0,
    "stop-masked": 0,
    "no-boundary": 0.001,
    "inner-end": 0,
    "finish-reason": 0,
    "unfinished": 0.01,
    "marker-split": 0.001,
    "foreign-ids": 0.02,
    "row-counts": 0,
    "row-prompt": 0,
    "row-answer": 0,
    "re-tokenised": 0,
    "swapped-answer": 0,
    "row-twice": 0,
    "row-missing": 0,
    "beyond-cut": 0,
    "row-order": 0,
    "position-order": 0,
    "prompt-rendered": 0,
    "prompts-changed": 0,
    "tokenizer-changed": 0,
    "journal-line": 0,
    "thinking-unclosed": 0.02,
    "thinking-missing": 0.02,
    "marker-order": 0.01,
    "tool-call": 0.05,
    "unknown-tool": 0.02,
    "empty": 0.01,
    "duplicate": 0.01,
    "answer-repeated": 0.01,
    "loop": 0.02,
    "truncated": 0.2,
    "utf8": 0.01,
    "special-text": 0.01,
    "length-by-position": 0,
    "length-drift": 0,
    "language-drift": 0,
    "journal-settled": 0,
    "owed": 0,
    "marker-coverage": 0,
    "replay-likelihood": 0,
    "replay-unlisted": 0,
    "replay-start": 0,
    "replay-cut": 0.001,
    "replay-row": 0,
    "replay-re-tokenised": 0,
    "replay-greedy": 0,
    "replay-precision": 0,
    "replay-divergence": 0,
}


def check_thresholds(given: dict[str, Any]) -> dict[str, float]:
    """Thresholds by the name of a check. Raises ValueError for another name, and for what is no share or number."""
    for name, value in given.items():
        if name not in THRESHOLDS:
            raise ValueError(f"no check {one_of(name, list(THRESHOLDS))}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise ValueError(f"{name}: {value!r} should be a share below 1, or a number of rows")
    return {name: float(value) for name, value in given.items()}


Verify = Annotated[dict[str, Any], AfterValidator(check_thresholds)]
