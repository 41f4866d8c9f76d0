"""An engine as it is typed: in a recipe, as an override, as a side of a comparison."""

from typing import Any

import pytest
from pydantic import ValidationError

from draftmill.recipe import EngineSpec, as_engine


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("embedded", {}),
        ("embedded:", {}),
        ("embedded:kv=q8_0", {"kv": "q8_0"}),
        ("embedded: kv = Q4_0 , slots=4, prompt_cache=false", {"kv": "q4_0", "slots": 4, "prompt_cache": False}),
        ("embedded:weights=Q5_1,gguf=models/a.gguf", {"weights": "q5_1", "gguf": "models/a.gguf"}),
    ],
)
def test_the_embedded_engine_with_its_options(text: str, values: dict[str, Any]) -> None:
    assert EngineSpec.model_validate(as_engine(text)) == EngineSpec(kind="embedded", **values)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("embedded:kv=q9_0", "'f32', 'f16', 'bf16', 'q8_0'"),
        ("embedded:kv", "'f32', 'f16', 'bf16', 'q8_0'"),
        ("embedded:vk=q8_0", "Extra inputs"),
        ("embedded:slots=many", "integer"),
        ({"url": "http://h:1", "kv": "q8_0"}, "kv can be set for kind: embedded only"),
        ({"url": "http://h:1", "weights": "q8_0", "slots": 3}, "slots, weights can be set"),
    ],
)
def test_what_no_engine_has(engine: object, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        EngineSpec.model_validate(as_engine(engine))
