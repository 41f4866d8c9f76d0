"""Where one dataset's prompts come from, and which of its rows are wanted."""

import difflib
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from draftmill.recipe.count import Count
from draftmill.recipe.part import Part
from draftmill.recipe.sampling import Sampling

_TAKEN_NAMES = {  # what else lies in a run's folder
    *("tokenizer", "logs", "serve", "export", "lock", "run.yaml", "control.yaml", "events.jsonl", "load.jsonl"),
    *("engines.json", "voices.json", "verification.json", "report.html", "report.json"),
}
# arguments of apply_chat_template that decide the prompt's text beside the template: draftmill sets them itself
_OWN_ARGUMENTS = {
    *("messages", "conversation", "tools", "chat_template", "add_generation_prompt", "continue_final_message"),
    *("tokenize", "tokenizer_kwargs", "padding", "truncation", "max_length", "return_tensors", "return_dict"),
    *("return_assistant_tokens_mask", "sanitize_control_tokens"),
}
FORMATS = (  # what `sources` reads; its own table is held against this one by a test
    *("auto", "tokenized", "glaive", "bfcl", "xlam", "humaneval", "sweagent", "trajectory", "hermes", "reasoning"),
    *("messages", "sharegpt", "ultrachat", "turns", "opencodeinstruct", "alpaca", "prompt"),
)


def _file_safe(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError("must be letters, digits, '.', '_' or '-', since it names the dataset's folder")
    if name.lower() in _TAKEN_NAMES:
        raise ValueError("is the name of something else in a run's folder; call the dataset otherwise")
    return name


def _format(name: str) -> str:
    if name not in FORMATS:
        close = difflib.get_close_matches(name.lower(), FORMATS, n=1)
        hint = f"did you mean {close[0]}? There are" if close else "there are"
        raise ValueError(f"is an unknown format; {hint} {', '.join(FORMATS[1:])}, or {FORMATS[0]} to have it found out")
    return name


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _languages(codes: list[str]) -> list[str]:
    for code in codes:
        if not re.fullmatch("[a-z]{2,3}", code):
            raise ValueError(f"holds {code!r}: languages are ISO codes of two letters, such as en, de or zh")
    return list(dict.fromkeys(codes))


def _wanted(columns: dict[str, Any]) -> dict[str, Any]:
    for column, values in columns.items():
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, str | int | float | bool | None):
                raise ValueError(
                    f"{column}: a wanted value is a text, a number, true, false or null, or a list of these"
                )
        if values == []:
            raise ValueError(f"{column}: is an empty list: no row would be left")
    return columns


def _template(arguments: dict[str, Any]) -> dict[str, Any]:
    if own := sorted(_OWN_ARGUMENTS & arguments.keys()):
        raise ValueError(f"{', '.join(own)} cannot be set here: it is no variable of a chat template")
    return arguments


def _no_nul(source: str) -> str:
    if not source or "\0" in source:
        raise ValueError("is no name of a file or dataset")
    return source


def _own_sampling(values: dict[str, Any]) -> dict[str, Any]:
    Sampling.model_validate(values)
    return values


BudgetCounts = Literal["generated", "all"]
Turns = Literal["last", "first", "all"]
History = Literal["served", "recorded"]
Duplicates = Literal["keep", "exact", "near"]
Template = Annotated[dict[str, Any], AfterValidator(_template)]
Languages = Annotated[list[str], BeforeValidator(_one_or_many), AfterValidator(_languages)]


class LongPrompts(Part):
    """Prompts of more than ``over`` tokens go to another lane than the dataset's."""

    over: Count
    lane: str


class Dataset(Part):
    """Where one dataset's prompts come from and which of them are wanted.

    What is None here is the recipe's, once the dataset stands in one.
    """

    name: Annotated[str, AfterValidator(_file_safe)]
    source: Annotated[str, AfterValidator(_no_nul)]
    format: Annotated[str, AfterValidator(_format)] = "auto"
    column: str | None = None
    subset: str | None = None
    incomplete: Literal["refuse", "accept"] = "refuse"
    where: Annotated[dict[str, Any], AfterValidator(_wanted)] = Field(default={})
    languages: Languages | None = None
    duplicates: Duplicates | None = None
    min_prompt_tokens: Count | None = None
    max_prompt_tokens: Count | None = None
    samples: Count | None = None
    share: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    budget: Count | None = None
    budget_counts: BudgetCounts = "generated"
    lane: str = "short"
    long_prompts: LongPrompts | None = None
    turns: Turns = "last"
    history: History = "served"
    n: Annotated[int, Field(ge=1, le=1000)] = 1
    system: str | None = None
    native_tools: bool = False
    sampling: Annotated[dict[str, Any], AfterValidator(_own_sampling)] = Field(default={})
    template: Template = Field(default={})

    @model_validator(mode="after")
    def _fits(self) -> "Dataset":
        if self.history == "recorded" and self.turns != "all":
            raise ValueError("history: recorded goes with turns: all; the last and the first turn have it anyway")
        return self

    def lane_of(self, prompt_tokens: int) -> str:
        """The lane of a prompt of this length."""
        long = self.long_prompts
        return long.lane if long and prompt_tokens > long.over else self.lane
