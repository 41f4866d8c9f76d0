"""What must stay free on a GPU beside weights and KV cache: graphs that are captured, and the peak of a prefill.

SGLang's fraction covers weights and pool only, so both come out of the rest. (vLLM profiles a prefill before it sizes
its pool.) ``free · (1 − fraction)`` less what graphs took is what a prefill finds.
"""

from draftmill.capacity.shape import Shape

MIB, GIB = 2**20, 2**30
LEAST = 2 * GIB  # below it no peak is believed: fragments and kernels' workspaces are in no formula
GRAPHS_SEEN = 1.45  # times what SGLang reckons: 5.8 GiB against 4.0 on the one server that was measured
_ACTIVATION = 2  # bytes: activations are bf16
_LOGIT = 8  # bytes: float32, and a copy while they are sampled


def chunk(card: float) -> int:
    """SGLang's default ``chunked_prefill_size`` for a card of so many bytes (``memory_hook.py``)."""
    mib = card / MIB
    return 2048 if mib < 20 * 1024 else 4096 if mib < 60 * 1024 else 8192 if mib < 160 * 1024 else 16_384


def graph_batch(card: float, tp: int) -> int:
    """SGLang's default for the largest batch of a decode graph (same place)."""
    gib = card / GIB
    for below, few, many in ((20, 8, 8), (35, 48, 160), (60, 32, 160), (160, 256, 512)):
        if gib < below:
            return few if tp < 4 else many
    return 512


def reckoned(card: float, *, tp: int, pp: int = 1, mla: bool = False) -> float:
    """Bytes that SGLang reckons for graphs and constant data of a GPU (same place): 512 MiB, 2 MiB for each sequence of
    the largest decode graph, the prefill graphs, and 128 MiB a rank."""
    prefill_graphs = 1536 if mla else 464
    return (512 + 2 * graph_batch(card, tp) + prefill_graphs + tp * pp * 128) * MIB


def default_fraction(card: float, *, tp: int, pp: int = 1, mla: bool = False) -> float:
    """What SGLang takes where ``--mem-fraction-static`` is not given: the card less 1.5 MiB for each token of a chunk
    and less what it reckons for graphs, at least 10 GiB of a card above 60."""
    aside = 1.5 * MIB * chunk(card) + reckoned(card, tp=tp, pp=pp, mla=mla)
    return round((card - (max(aside, 10 * GIB) if card > 60 * GIB else aside)) / card, 3)


def peak(shape: Shape, *, tokens: int, requests: int, tp: int = 1) -> float:
    """Bytes of activations at the peak of a prefill of ``tokens`` tokens of ``requests`` prompts, a GPU of ``tp``.

    A layer holds residual, normalised input and output (3 · hidden), and the larger of its attention (queries, keys,
    values, outputs) and its MLP: gate, up and their product (3 · width), in a mixture of experts for each chosen
    expert, whose outputs (hidden each) stand side by side before they are summed. Behind the last layer stand the
    logits of one token of each prompt. At least 2 GiB.
    """
    mlp = 3 * shape.width / tp
    if shape.chosen:
        mlp = shape.chosen * (mlp + shape.hidden)
    layer = tokens * (3 * shape.hidden + max(shape.expanded / tp, mlp)) * _ACTIVATION
    return max(LEAST, layer + requests * shape.vocab * _LOGIT)


def left(free: float, fraction: float, graphs: float) -> float:
    """Bytes that a prefill finds."""
    return free * (1 - fraction) - graphs


def highest_fraction(free: float, graphs: float, needed: float) -> float:
    """The largest fraction, in hundredths, that leaves a prefill what it needs."""
    return int((1 - (graphs + needed) / free) * 100) / 100


def gib(bytes: float) -> str:
    """Bytes for people."""
    return f"{bytes / GIB:,.1f} GiB"
