"""The recipe: the user's YAML, validated. Unknown keys are refused and all faults are reported at once.

``load`` reads a file, ``apply`` lays the command line's overrides over it, ``validate`` checks the result.
"""

from draftmill.recipe.control import Control, Wish, check_control, read_control
from draftmill.recipe.faults import validate
from draftmill.recipe.file import load
from draftmill.recipe.markers import Markers
from draftmill.recipe.model import (
    EMBEDDED,
    SMALL_MODEL,
    BudgetCounts,
    Concurrency,
    Dataset,
    EngineSpec,
    History,
    Lane,
    LongPrompts,
    Order,
    Recipe,
    Sampling,
    Turns,
    parse_count,
)
from draftmill.recipe.overrides import Overrides, apply
from draftmill.recipe.verify import THRESHOLDS, check_thresholds

__all__ = [
    "EMBEDDED",
    "SMALL_MODEL",
    "THRESHOLDS",
    "BudgetCounts",
    "Concurrency",
    "Control",
    "Dataset",
    "EngineSpec",
    "History",
    "Lane",
    "LongPrompts",
    "Markers",
    "Order",
    "Overrides",
    "Recipe",
    "Sampling",
    "Turns",
    "Wish",
    "apply",
    "check_control",
    "check_thresholds",
    "load",
    "parse_count",
    "read_control",
    "validate",
]
