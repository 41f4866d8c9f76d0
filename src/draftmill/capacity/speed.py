"""How fast a server decodes: a step of n sequences takes W + H·n seconds, so n / (W + H·n) tokens a second."""

from collections.abc import Sequence

import msgspec


class Speed(msgspec.Struct, frozen=True):
    """A decode step of ``n`` sequences takes ``base + per_sequence · n`` seconds: the weights and collectives, and what
    each sequence adds."""

    base: float
    per_sequence: float

    def step(self, running: float) -> float:
        """Seconds of one decode step."""
        return self.base + self.per_sequence * running

    def rate(self, running: float) -> float:
        """Generated tokens a second."""
        return running / self.step(running)


def fit(points: Sequence[tuple[float, float]]) -> Speed:
    """The speed of a server from its own history: (sequences running, tokens a second), at two loads or more.

    Least squares on the step time ``running / rate``, which is linear in ``running``.
    """
    steps = [(n, n / rate) for n, rate in points]
    mean_n = sum(n for n, _ in steps) / len(steps)
    mean_step = sum(step for _, step in steps) / len(steps)
    spread = sum((n - mean_n) ** 2 for n, _ in steps)
    if not spread:
        raise ValueError("a speed needs two different loads")
    slope = sum((n - mean_n) * (step - mean_step) for n, step in steps) / spread
    return Speed(base=mean_step - slope * mean_n, per_sequence=slope)


def sane(speed: Speed) -> Speed:
    """A fit whose noise made one of the two negative, with the step time of its middle kept on the other."""
    return Speed(max(speed.base, 1e-6), max(speed.per_sequence, 0.0))


BANDWIDTH_USED = (
    0.4  # the reference run's step at 40 decodes took 2.5 × the time of its bytes; others lie at 0.3 to 0.7
)


def guess(weights: float, bandwidth: float, *, held: float, experts: int = 0, chosen: int = 0) -> Speed:
    """A guess for a server that nobody has measured: the bytes that a step must read, at ``BANDWIDTH_USED`` of the
    memory's bandwidth. All in bytes a GPU; ``held`` is the KV cache of one sequence.

    Of a mixture of experts a step of 32 sequences touches 1 − (1 − chosen / experts)^32 of them, nearly all of the
    weights. Good for an order of magnitude: two observed loads replace it.
    """
    touched = 1 - (1 - chosen / experts) ** 32 if experts and chosen else 1.0
    usable = bandwidth * BANDWIDTH_USED
    return Speed(weights * touched / usable, held / usable)
