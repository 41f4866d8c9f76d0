"""How the target samples."""

from typing import Annotated

from pydantic import AfterValidator, Field

from draftmill.recipe.part import Part


def _top_k(value: int) -> int:
    if value < -1:
        raise ValueError("must be -1 (off) or at least 1")
    return value or -1


class Sampling(Part):
    """How the target samples. Every value is sent with every request, neutral ones too: servers fill gaps."""

    temperature: Annotated[float, Field(ge=0, le=10)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, AfterValidator(_top_k)] = -1
    min_p: Annotated[float, Field(ge=0, lt=1)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] = 1.0
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
