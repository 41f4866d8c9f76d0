"""What every part of a recipe is: frozen, without unknown keys."""

import difflib
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Part(BaseModel):
    """One part of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, data: object) -> object:
        """A key without a value, as is left when all below it is commented out, is the same as no key."""
        if not isinstance(data, dict):
            return data
        return {k: v for k, v in data.items() if v is not None or k not in cls.model_fields}


def one_of(name: str, known: list[Any]) -> str:
    """``'logn'; did you mean long?`` or what there is."""
    close = difflib.get_close_matches(name, [k for k in known if isinstance(k, str)], n=1)
    return f"{name!r}; " + (f"did you mean {close[0]}?" if close else f"there are {', '.join(map(str, known))}")
