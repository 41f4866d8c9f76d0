"""What every part of a recipe is: frozen, without unknown keys."""

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
