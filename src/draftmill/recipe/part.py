"""What every part of a recipe is: frozen, without unknown keys."""

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator, model_validator

_NUMBERS = (int, float, int | None, float | None)  # YAML reads `yes` and `on` as true, which Python counts as 1


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

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields[info.field_name or ""]
        judges = any(isinstance(each, BeforeValidator) for each in field.metadata)  # by itself: `off` may be a value
        if isinstance(value, bool) and field.annotation in _NUMBERS and not judges:
            raise ValueError("is no number (YAML reads yes and on as true)")
        return value
