"""The recipe: the user's YAML, validated. Unknown keys are refused and all faults are reported at once.

``load`` reads a file, ``apply`` lays the command line's overrides over it, ``validate`` checks the result.
"""

from draftmill.recipe.control import Control, Wish, check_control, read_control
from draftmill.recipe.count import parse_count
from draftmill.recipe.dataset import FORMATS, BudgetCounts, Dataset, Duplicates, History, LongPrompts, Turns
from draftmill.recipe.faults import explained_values, validate
from draftmill.recipe.file import load
from draftmill.recipe.fit import EMBEDDED, as_engine
from draftmill.recipe.markers import Markers
from draftmill.recipe.model import SMALL_MODEL, Concurrency, EngineSpec, Lane, Order, Recipe
from draftmill.recipe.names import is_embedded, named
from draftmill.recipe.overrides import Overrides, apply
from draftmill.recipe.plan import KV, Load, Plan, Start, parse_size
from draftmill.recipe.sampling import Sampling
from draftmill.recipe.server import server_of
from draftmill.recipe.verify import THRESHOLDS, check_thresholds

__all__ = [
    "EMBEDDED",
    "FORMATS",
    "KV",
    "SMALL_MODEL",
    "THRESHOLDS",
    "BudgetCounts",
    "Concurrency",
    "Control",
    "Dataset",
    "Duplicates",
    "EngineSpec",
    "History",
    "Lane",
    "Load",
    "LongPrompts",
    "Markers",
    "Order",
    "Overrides",
    "Plan",
    "Recipe",
    "Sampling",
    "Start",
    "Turns",
    "Wish",
    "apply",
    "as_engine",
    "check_control",
    "check_thresholds",
    "explained_values",
    "is_embedded",
    "load",
    "named",
    "parse_count",
    "parse_size",
    "read_control",
    "server_of",
    "validate",
]
