"""What a person says about a model's markers, where draftmill does not find them by itself."""

from collections import Counter
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from draftmill.recipe.part import Part

# the names of `render.families`, which stands above: tests hold both to each other
Family = Literal[
    "kimi", "gpt-oss", "minimax", "deepseek", "glm", "qwen3-coder", "qwen3", "hermes", "gemma", "llama3", "plain"
]
Body = Literal["json", "kimi", "deepseek", "keys", "invoke", "function", "python_tag", "harmony"]


def _pair(value: object) -> object:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(isinstance(text, str) for text in value):
        raise ValueError("should be two texts: [where it begins, where it ends]")
    return tuple(value)


def _both(pair: tuple[str, str]) -> tuple[str, str]:
    if not all(pair):
        raise ValueError("should be two texts, neither of them empty")
    return pair


def _first(pair: tuple[str, str]) -> tuple[str, str]:
    if not pair[0]:
        raise ValueError("should begin with a text; only the second may be empty, where a call ends with its turn")
    return pair


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


Pair = Annotated[tuple[str, str], BeforeValidator(_pair), AfterValidator(_both)]
Call = Annotated[tuple[str, str], BeforeValidator(_pair), AfterValidator(_first)]
Text = Annotated[str, Field(min_length=1)]


class Markers(Part):
    """A model's own markers, each as its text; what is left out is found as usual.

    ``family`` is the one to start from, ``body`` how a call is written between its markers.
    """

    family: Family | None = None
    thinking: Pair | None = None
    section: Pair | None = None
    call: Call | None = None
    separator: Text | None = None
    body: Body | None = None
    turn_ends: Annotated[tuple[Text, ...], BeforeValidator(_one_or_many)] = ()

    @model_validator(mode="after")
    def _fits(self) -> "Markers":
        pairs = (self.thinking or (), self.section or (), self.call or ())
        texts = [*(text for pair in pairs for text in pair if text), *([self.separator] if self.separator else [])]
        twice = [text for text, number in Counter([*texts, *self.turn_ends]).items() if number > 1]
        if twice:
            raise ValueError(f"{', '.join(map(repr, twice))} cannot mean two things")
        return self
