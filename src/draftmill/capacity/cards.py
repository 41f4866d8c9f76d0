"""Common accelerators: what a driver reports as their memory, and their memory's bandwidth, from the data sheets."""

import msgspec

from draftmill.capacity.headroom import GIB, MIB

CONTEXT = 1.55 * GIB  # that CUDA's context and the collectives take before any weight: 95.59 − 94.04 GiB were seen


class Card(msgspec.Struct, frozen=True):
    """``memory`` in bytes, ``bandwidth`` in bytes a second."""

    name: str
    memory: float
    bandwidth: float

    @property
    def free(self) -> float:
        """Bytes that SGLang finds free before it loads, more or less."""
        return self.memory - CONTEXT


CARDS = {
    name: Card(name, mib * MIB, gb * 1e9)
    for name, mib, gb in (
        ("l4", 23_034, 300),
        ("a10g", 23_028, 600),
        ("l40s", 46_068, 864),
        ("rtx-4090", 24_564, 1008),
        ("rtx-5090", 32_607, 1792),
        ("rtx-6000-ada", 49_140, 960),
        ("rtx-pro-6000", 97_887, 1792),
        ("a100-40", 40_960, 1555),
        ("a100-80", 81_920, 2039),
        ("h100", 81_559, 3350),
        ("h100-nvl", 95_830, 3900),
        ("h20", 97_871, 4000),
        ("h200", 143_771, 4800),
        ("b200", 183_359, 8000),
        ("b300", 275_040, 8000),
        ("mi300x", 196_592, 5300),
        ("mi325x", 262_128, 6000),
    )
}


def by_driver(name: str, memory: float) -> Card | None:
    """The card of a name as the driver writes it: the one whose words all stand in it and whose memory is nearest."""
    words = name.lower().replace("-", " ").split()
    known = [
        card
        for key, card in CARDS.items()
        if all(any(part in word for word in words) for part in key.split("-") if not _is_size(part))
        and abs(card.memory - memory) < memory / 8
    ]
    return min(known, key=lambda card: abs(card.memory - memory), default=None)


def _is_size(part: str) -> bool:
    return part in ("40", "80")
