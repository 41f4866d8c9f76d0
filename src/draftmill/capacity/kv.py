"""Bytes of KV cache a token: the *cell* that divides a server's pool into tokens."""

from fractions import Fraction
from math import ceil

from draftmill.capacity.shape import Layers, Shape

# Bytes an element. fp4 keeps a scale byte for each 16 elements (SGLang), llama.cpp's types a half-precision scale (and
# for the _1 types a minimum) for each 32.
DTYPES = {
    "f32": Fraction(4),
    "bf16": Fraction(2),
    "f16": Fraction(2),
    "fp8": Fraction(1),
    "fp4": Fraction(9, 16),
    "q8_0": Fraction(34, 32),
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
}
WHOLE = ("f32", "bf16", "f16")  # these do not change what the target says
WINDOW_RATIO = Fraction(8, 10)  # SGLang's --swa-full-tokens-ratio: tokens of the window pool for each of the full pool


def cell(
    shape: Shape, dtype: str, *, tp: int = 1, pp: int = 1, ratio: Fraction = WINDOW_RATIO, draft_layers: int = 0
) -> Fraction:
    """Bytes a token that SGLang counts on each GPU (``pool_configurator.py`` of 0.5.23).

    Σ max(1, kv_heads // tp) · (key + value) · layers · bytes, window layers times ``ratio``, linear layers not at
    all; a drafter of ``draft_layers`` layers adds their share of the target's. Of pipeline stages the fullest.
    """
    total = Fraction(0)
    for group in shape.kept:
        share = ratio if group.window is not None and _mixed(shape) else Fraction(1)
        total += share * ceil(group.count / pp) * of_layer(group, dtype, tp)
    return total * (1 + Fraction(draft_layers, shape.layers))


def of_layer(group: Layers, dtype: str, tp: int = 1) -> Fraction:
    """Bytes a token in one layer of a group, on each of ``tp`` GPUs."""
    return group.elements(tp) * DTYPES[dtype] + group.index


def whole(shape: Shape, dtype: str, *, windows: bool = True) -> int:
    """Bytes a token over all layers and GPUs, replicas once: what the tables of models give.

    Without ``windows`` only the layers that keep every token of a long context.
    """
    groups = [g for g in shape.kept if windows or g.window is None]
    return int(sum((g.count * of_layer(g, dtype) for g in groups), Fraction(0)))


def of_sequence(shape: Shape, dtype: str, tokens: int) -> int:
    """Bytes that one sequence of so many tokens holds: window layers keep their window, linear ones their state."""
    held = sum(
        (g.count * of_layer(g, dtype) * min(tokens, g.window or tokens) for g in shape.kept), Fraction(shape.state or 0)
    )
    return int(held)


def _mixed(shape: Shape) -> bool:
    """Whether there are full layers for the window layers to stand in relation to."""
    return any(group.window is None for group in shape.kept)
