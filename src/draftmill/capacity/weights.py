"""How many bytes a model's weights are, from what its safetensors files say of themselves."""

import json
from collections.abc import Mapping
from math import prod
from typing import Any

_BITS = {"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16}
_BITS |= {"F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4}
LENGTH = 8  # bytes before a safetensors header that say how long it is


def of_index(index: Mapping[str, Any]) -> int:
    """From ``model.safetensors.index.json``: ``metadata.total_size``. Raises ValueError where it says nothing."""
    size = (index.get("metadata") or {}).get("total_size")
    if not isinstance(size, int | float) or isinstance(size, bool) or size <= 0:
        raise ValueError("metadata.total_size is missing: the index does not say how large the weights are")
    return int(size)


def header_length(head: bytes) -> int:
    """How many bytes of JSON follow the first 8 of a safetensors file. Raises ValueError for what is none."""
    length = int.from_bytes(head[:LENGTH], "little")
    if len(head) < LENGTH or not 2 <= length <= 100_000_000:  # the format's own bound
        raise ValueError("is no safetensors file")
    return length


def of_header(header: bytes) -> int:
    """From a safetensors header: the sum over its tensors of elements · bits / 8. Raises ValueError."""
    try:
        tensors = json.loads(header)
        return sum(
            -(-prod(t["shape"]) * _BITS[t["dtype"]] // 8) for name, t in tensors.items() if name != "__metadata__"
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"is no safetensors header: {error!r}") from None


def per_gpu(total: int, *, tp: int = 1, pp: int = 1) -> float:
    """Bytes on each GPU, were everything divided evenly. What is replicated (norms, a router, MLA's latents) and what
    loading leaves behind comes on top: a first observed start says it exactly."""
    return total / (tp * pp)
