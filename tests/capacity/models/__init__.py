"""Published configs of models, cut to the keys that decide their KV cache and activations."""

import json
from pathlib import Path
from typing import Any

from draftmill.capacity.shape import Shape, of_config


def config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    return found


def shape(name: str) -> Shape:
    return of_config(config(name))
